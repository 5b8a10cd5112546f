package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The address comes from the environment, else from the configuration or the file that it names; no error has it.
func TestDatabaseAddress(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, open, empty := file("good", "postgres://f:hunter2@h/d\n", 0o600), file("open", "postgres://f:hunter2@h/d\n", 0o640), file("empty", " \n", 0o600)
	for _, test := range []struct{ name, config, env, want, err string }{
		{"none", "serve: {running: 1}", "", "", ""},
		{"of the configuration", "serve: {database: 'postgres://c:hunter2@h/d'}", "", "postgres://c:hunter2@h/d", ""},
		{"of a file", "serve: {database_file: " + good + "}", "", "postgres://f:hunter2@h/d", ""},
		{"of the environment first", "serve: {database_file: " + open + "}", "postgres://e@h/d", "postgres://e@h/d", ""},
		{"a file that others read", "serve: {database_file: " + open + "}", "", "", "its owner alone"},
		{"a directory", "serve: {database_file: " + dir + "}", "", "", "its owner alone"},
		{"an empty file", "serve: {database_file: " + empty + "}", "", "", "is empty"},
		{"no such file", "serve: {database_file: " + dir + "/none}", "", "", "database_file"},
		{"both", "serve: {database: 'postgres://c:hunter2@h/d', database_file: " + good + "}", "", "", "give one of them"},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := &app{env: func(name string) string {
				if name == "SILK_DATABASE" {
					return test.env
				}
				return ""
			}}
			c, err := parseConfig("config.yaml", []byte(test.config))
			got := ""
			if err == nil {
				s, dberr := a.database(c.serve)
				got, err = s.Reveal(), dberr
			}
			if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "hunter2")) {
				t.Errorf("error %v, want %q, without the password", err, test.err)
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

//go:build unix

package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/silk-sandbox/silk/store"
)

// status runs a command and demands its exit status: status 125 silk run --nonsense
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, want %d", got, want)
	}
}

// jsonCommand looks into the one JSON value on stdout: json outcome timeout; json stdout.text 'a'; json 0.name lab:text. A
// value is compared as JSON would print it, text without quotes. With one argument the path must be there, with ! absent.
func jsonCommand(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: json path [value]")
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(ts.ReadFile("stdout"))))
	var v any
	if err := dec.Decode(&v); err != nil {
		ts.Fatalf("stdout is not JSON: %v", err)
	}
	if dec.More() {
		ts.Fatalf("stdout has more than one JSON value")
	}
	found := true
	for key := range strings.SplitSeq(args[0], ".") {
		switch at := v.(type) {
		case map[string]any:
			v, found = at[key]
		case []any:
			i, err := strconv.Atoi(key)
			if found = err == nil && i < len(at); found {
				v = at[i]
			}
		default:
			found = false
		}
		if !found {
			break
		}
	}
	if !found && !neg {
		ts.Fatalf("%s is not there", args[0])
	}
	if len(args) == 1 {
		if found && neg {
			ts.Fatalf("%s is there", args[0])
		}
		return
	}
	got, ok := v.(string)
	if !ok {
		data, err := json.Marshal(v)
		ts.Check(err)
		got = string(data)
	}
	if (got == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s (negated: %v)", args[0], got, args[1], neg)
	}
}

// silkImage imports a root filesystem under some tags, lab:text if none is given: silk-image lab:text lab:node
func silkImage(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: silk-image [tag...]")
	}
	if len(args) == 0 {
		args = []string{"lab:text"}
	}
	ts.Check(os.MkdirAll(ts.MkAbs("lab-text/bin"), 0o755))
	ts.Check(os.WriteFile(ts.MkAbs("lab-text/bin/true"), []byte("not really"), 0o755))
	for _, tag := range args {
		ts.Check(ts.Exec("silk", "image", "import", "lab-text", tag))
	}
}

// runID puts the id of the only run in the list on stdout, or the beginning of it, into a variable: run-id id [length]
func runID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: run-id variable [length]")
	}
	var list []struct{ Run string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
	if len(list) != 1 || list[0].Run == "" {
		ts.Fatalf("want one run, have %v", list)
	}
	id := list[0].Run
	if len(args) == 2 {
		most, err := strconv.Atoi(args[1])
		ts.Check(err)
		id = id[:min(len(id), most)]
	}
	ts.Setenv(args[0], id)
}

// handoffID puts the id of the first hand-off in the list on stdout into a variable: handoff-id id
func handoffID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: handoff-id variable")
	}
	var list []struct{ Handoff string }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &list))
	if len(list) == 0 || list[0].Handoff == "" {
		ts.Fatalf("want a hand-off, have %v", list)
	}
	ts.Setenv(args[0], list[0].Handoff)
}

// breakTrail changes an audit event behind silk's back: break-trail
func breakTrail(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: break-trail")
	}
	db, err := store.Open(context.Background(), ts.MkAbs("state/silk.db"))
	ts.Check(err)
	rows, err := db.Query("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit_events'")
	ts.Check(err)
	var triggers []string
	for rows.Next() {
		var name string
		ts.Check(rows.Scan(&name))
		triggers = append(triggers, name)
	}
	ts.Check(rows.Close())
	ts.Check(db.Update(context.Background(), func(tx *sql.Tx) error {
		for _, name := range triggers {
			if _, err := tx.Exec("DROP TRIGGER " + name); err != nil {
				return err
			}
		}
		_, err := tx.Exec("UPDATE audit_events SET timestamp = timestamp + 1 WHERE seq = 2")
		return err
	}))
	ts.Check(db.Close())
}

// expand replaces $WORK in a file: expand config.yaml
func expand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: expand file")
	}
	text := strings.ReplaceAll(ts.ReadFile(args[0]), "$WORK", ts.Getenv("WORK"))
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

// await runs a command again and again until its stdout matches: await 'regexp' silk runs ls
func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await regexp command [args...]")
	}
	want, err := regexp.Compile(args[0])
	ts.Check(err)
	for range 2000 { // each is a process: this is a minute, not a moment
		ts.Check(ts.Exec(args[1], args[2:]...))
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("%q does not come", args[0])
}

// blob makes a file that is no text: blob file
func blob(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: blob file")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte("\x7fELF\x02\x00"), 0o600))
}

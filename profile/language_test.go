package profile

import (
	"slices"
	"testing"
)

func TestDetect(t *testing.T) {
	tests := []struct{ name, file, line, fence, want string }{
		{name: "extension", file: "a/b.py", want: "python"},
		{name: "extension in capitals", file: "X.PY", want: "python"},
		{name: "whole name", file: "src/Makefile", want: "make"},
		{name: "name that only ends alike", file: "NotAMakefile", want: ""},
		{name: "extension beats shebang", file: "x.sh", line: "#!/usr/bin/python3", want: "sh"},
		{name: "shebang", line: "#!/bin/bash -e", want: "bash"},
		{name: "shebang with env", file: "tool", line: "#!/usr/bin/env python3", want: "python"},
		{name: "shebang with env -S, variables and version", line: "#!/usr/bin/env -S A=1 python3.13 -u", want: "python"},
		{name: "shebang behind a byte order mark", line: "\ufeff#!/usr/bin/env node", want: "javascript"},
		{name: "shebang of gawk", line: "#!/usr/bin/gawk -f", want: "awk"},
		{name: "unknown interpreter", line: "#!/usr/bin/ruby", want: ""},
		{name: "empty shebang", line: "#!", want: ""},
		{name: "env alone", line: "#!/usr/bin/env", want: ""},
		{name: "no shebang", line: "print(1)", want: ""},
		{name: "fence beats extension", file: "x.py", fence: "TS", want: "typescript"},
		{name: "fence nobody knows", file: "x.py", fence: "mermaid", want: ""},
		{name: "typescript module", file: "a.mts", want: "typescript"},
		{name: "nothing", want: ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := Detect(tt.file, tt.line, tt.fence)
			if got.Name != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q %v, want %q", got.Name, ok, tt.want)
			}
		})
	}
}

// TestLanguagesAreConsistent holds the map to what Detect and policy rely on.
func TestLanguagesAreConsistent(t *testing.T) {
	seen := map[string]string{}
	for _, l := range Languages() {
		if _, err := (*Set)(nil).Lookup(l.Profile); err != nil {
			t.Errorf("%s: %v", l.Name, err)
		}
		if got, ok := Detect(l.File, "", ""); !ok || got.Name != l.Name {
			t.Errorf("%s: its own file name %s is taken for %q", l.Name, l.File, got.Name)
		}
		if got, ok := LanguageNamed(l.Name); !ok || got.Name != l.Name {
			t.Errorf("%s is found as %q", l.Name, got.Name)
		}
		if (l.Compile == nil) != slices.Contains(l.Command, "{file}") || (l.Compile != nil) != slices.Contains(l.Command, "{out}") {
			t.Errorf("%s: a compiled language runs {out}, another one {file}: %v", l.Name, l.Command)
		}
		for _, words := range [][]string{l.Extensions, l.Fences, l.Shebangs} {
			for _, w := range words {
				if other := seen[w]; other != "" && other != l.Name {
					t.Errorf("%q belongs to %s and %s", w, other, l.Name)
				}
				seen[w] = l.Name
			}
		}
	}
}

func FuzzDetect(f *testing.F) {
	f.Add("a.py", "#!/usr/bin/env -S x", "")
	f.Fuzz(func(t *testing.T, name, line, fence string) {
		if l, ok := Detect(name, line, fence); ok && l.Name == "" {
			t.Errorf("Detect(%q, %q, %q) found a language without a name", name, line, fence)
		}
	})
}

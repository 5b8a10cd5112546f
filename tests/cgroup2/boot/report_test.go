package main

import (
	"io"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	const good = "[    0.1] a word of the kernel\r\n\r\ncgroup2: part a\r\n=== RUN   TestA\r\n--- PASS: TestA (0.00s)\r\nPASS\r\n\r\ncgroup2: end a 0\r\n\r\ncgroup2: done\r\n"
	for _, test := range []struct{ name, old, new, want string }{
		{"everything passed", "", "", ""},
		{"a test failed", "--- PASS: TestA", "--- FAIL: TestA", "a: TestA failed\na: no test passed"},
		{"a test of a test failed", "PASS\r\n\r\n", "    --- FAIL: TestA/x (0.1s)\r\nFAIL\r\n\r\n", "a: TestA/x failed"},
		{"a test was skipped", "--- PASS: TestA", "--- SKIP: TestA", "a: TestA was not run\na: no test passed"},
		{"a binary died", "end a 0", "end a 137", "a: the test binary ended with status 137"},
		{"no test is in a binary", "--- PASS: TestA (0.00s)\r\n", "", "a: no test passed"},
		{"a group is left", "cgroup2: done", "cgroup2: left /x/silk-1-2-3\r\ncgroup2: done", "a: the control group /x/silk-1-2-3 is left"},
		{"the first process gave up", "done", "error mount proc: no", "error mount proc: no\nthe machine ended before its tests did, in part \"a\""},
		{"the machine stopped", "\r\ncgroup2: end a 0\r\n\r\ncgroup2: done\r\n", "", "the machine ended before its tests did, in part \"a\""},
	} {
		t.Run(test.name, func(t *testing.T) {
			console := good
			if test.old != "" {
				console = strings.Replace(good, test.old, test.new, 1)
			}
			r := report{out: io.Discard}
			if err := r.read(strings.NewReader(console)); err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := r.verdict(); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestField(t *testing.T) {
	const description = "Package: x\nVersion: 1:2-3\nArchitecture: amd64\nDescription: Version: none\n"
	for name, want := range map[string]string{"Version": "1:2-3", "Architecture": "amd64", "Depends": ""} {
		if got := field(description, name); got != want {
			t.Errorf("field(%s) = %q, want %q", name, got, want)
		}
	}
}

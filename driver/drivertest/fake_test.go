//go:build unix

package drivertest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/silk-sandbox/silk/driver"
)

// fakes is the suite's programs for a Fake.
var fakes = Programs{
	"exit code":                             {"fake", "exit:7"},
	"own signal":                            {"fake", "signal:15"},
	"channels are separate and exact":       {"fake", `print:out\x00\xff\x1b[1m\n`, `eprint:err\n`},
	"much output":                           {"fake", "flood:10000000"},
	"output arrives while the program runs": {"fake", `print:up\n`, "sleep"},
	"signal from outside":                   {"fake", `print:up\n`, "sleep"},
	"stdin is at its end by default":        {"fake", "cat"},
	"stdin is fed":                          {"fake", "cat"},
	"environment is exact":                  {"fake", "env"},
	"working directory":                     {"fake", "pwd"},
	"host name":                             {"fake", "hostname"},
	"missing command":                       {"no-such-command"},
	"kill at once":                          {"fake", `print:up\n`, "sleep"},
	"kill at any moment":                    {"fake", `print:up\n`, "sleep"},
	"canceled at each step of the start":    {"fake", `print:up\n`, "sleep"},
	"kill of a sandbox that has ended":      {"fake", "exit:7"},
	"kill from many goroutines":             {"fake", `print:up\n`, "sleep"},
	"drain after a kill":                    {"fake", "write:kept=data", `print:up\n`, "sleep"},
	"read-only":                             {"fake", "read:a.txt", "write:new=x", "remove:a.txt", "read:a.txt", `print:tmp\n`},
	"workspace in and out":                  {"fake", "read:in.txt", "write:out.txt=made", "remove:gone.txt"},
	"failed fill fails the start":           {"fake", "print:ran", "exit:7"},
	"failed drain fails the wait":           {"fake", "exit:7"},
	"canceled start":                        {"fake", "print:ran", "exit:7"},
	"memory limit":                          {"fake", "alloc:200000000"},
	"tmp is full":                           {"fake", "tmp:33554432"},
	"workspace is full":                     {"fake", "disk:134217728"},
	"processes limit":                       {"fake", "fork:32"},
	"no spawn":                              {"fake", "fork:1"},
	"network deny":                          {"fake", `print:before\n`, "inet", `print:after\n`},
	"network loopback":                      {"fake", "inet", `print:over loopback\n`},
	"forbidden file":                        {"fake", `print:before\n`, "open:/etc/passwd", `print:after\n`},
	"what was seen before a violation":      {"fake", `print:before\n`, "open:/etc/passwd", `print:after\n`},
	"a slow listener":                       {"fake", `print:before\n`, "open:/etc/passwd", `print:after\n`},
	"file outside the trees":                {"fake", "open:/etc/debian_version", "exit:0"},
	"descendants end with the main process": {"fake", "child", `print:up\n`},
	"usage is counted":                      {"fake", "exit:7"},
	"two at once":                           {"fake", "exit:7"},
	"start is traced":                       {"fake", "exit:7"},
	"terminal":                              {"fake", `print:up\n`, "resized", `print:43 132\n`},
}

func image(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, []byte("a fake looks at no image"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFakeConforms(t *testing.T) {
	for _, fake := range []*Fake{{}, {DrainAtStart: true}} {
		t.Run(fmt.Sprintf("drain at start %t", fake.DrainAtStart), func(t *testing.T) {
			Run(t, func(*testing.T) driver.Driver { return fake }, image, fakes)
			if n := fake.Running(); n != 0 {
				t.Errorf("%d sandboxes are left", n)
			}
		})
	}
}

// TestShellIsComplete keeps the programs that real drivers use in step with the suite.
func TestShellIsComplete(t *testing.T) {
	for _, c := range slices.Concat(cases, linkCases) {
		if _, ok := Shell[c.name]; !ok {
			t.Errorf("Shell has no program for %q", c.name)
		}
	}
}

func TestFakeRefusesABadSpec(t *testing.T) {
	root := image(t)
	defer root.Close()
	b := &bench{T: t, driver: &Fake{}, root: root, args: []string{"fake"}}
	for _, test := range []struct {
		name string
		harm func(*driver.Spec)
	}{
		{"no command", func(s *driver.Spec) { s.Args = nil }},
		{"no image", func(s *driver.Spec) { s.Image = nil }},
		{"unknown network", func(s *driver.Spec) { s.Network = "allow" }},
		{"no memory limit", func(s *driver.Spec) { s.MemoryBytes = 0 }},
		{"no output", func(s *driver.Spec) { s.Stdout = nil }},
	} {
		t.Run(test.name, func(t *testing.T) {
			spec := b.spec()
			spec.Stdout, spec.Stderr = root, root
			test.harm(&spec)
			if _, err := b.driver.Start(t.Context(), spec); err == nil {
				t.Error("it started")
			}
		})
	}
}

func TestFakeFailsOnDemand(t *testing.T) {
	root := image(t)
	defer root.Close()
	lost := errors.New("lost")
	b := &bench{T: t, driver: &Fake{WaitErr: lost}, root: root, args: []string{"fake", "sleep"}}
	s := b.start(b.spec(), false)
	s.sandbox.Kill(driver.KillNow)
	if _, err := s.waitErr(); !errors.Is(err, lost) {
		t.Errorf("wait: %v, want %v", err, lost)
	}
}

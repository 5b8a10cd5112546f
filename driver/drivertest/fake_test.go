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
			Run(t, func(*testing.T) driver.Driver { return fake }, image, Fakes)
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

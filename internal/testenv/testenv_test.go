package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRequired(t *testing.T) {
	tests := []struct {
		name string
		list string
		need Need
		want bool
	}{
		{"nothing is required", "", KVM, false},
		{"named", "kvm", KVM, true},
		{"named among others, with spaces and capitals", "root, KVM ,sentry", KVM, true},
		{"another one named", "root,sentry", KVM, false},
		{"a longer word is not the need", "kvmx", KVM, false},
		{"images covers every image", "images", Image("lab:text"), true},
		{"one image covers itself", "image:lab:text", Image("lab:text"), true},
		{"one image does not cover another", "image:lab:text", Image("lab:node"), false},
		{"all covers what make builds", "all", Sentry, true},
		{"all covers images", "all", Image("lab:python"), true},
		{"all does not ask for hardware", "all", KVM, false},
		{"all does not ask for a version of cgroups", "all", CgroupV2, false},
		{"all with hardware named", "all,kvm", KVM, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := required(test.list, test.need); got != test.want {
				t.Errorf("required(%q, %s) = %v, want %v", test.list, test.need, got, test.want)
			}
		})
	}
}

// recorder is a testing.TB that notes how a test ended.
type recorder struct {
	testing.TB
	skipped, failed string
	cleanups        []func()
}

func (r *recorder) Helper()                      {}
func (r *recorder) Cleanup(f func())             { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, args ...any) { r.failed = fmt.Sprintf(f, args...) }
func (r *recorder) Skipf(f string, args ...any)  { r.skipped = fmt.Sprintf(f, args...); panic(r) }
func (r *recorder) Fatalf(f string, args ...any) { r.failed = fmt.Sprintf(f, args...); panic(r) }
func (r *recorder) run(f func()) {
	defer func() {
		if p := recover(); p != nil && p != any(r) {
			panic(p)
		}
	}()
	f()
}

func TestRequire(t *testing.T) {
	t.Setenv(EnvHome, t.TempDir())
	need := Image("test:" + t.Name())

	t.Setenv(EnvRequire, "")
	r := &recorder{}
	r.run(func() { Require(r, need) })
	if !strings.Contains(r.skipped, "has no image test:TestRequire") || r.failed != "" {
		t.Errorf("skipped %q, failed %q; want a skip with the reason", r.skipped, r.failed)
	}

	t.Setenv(EnvRequire, "images")
	r = &recorder{}
	r.run(func() { Require(r, need) })
	if r.skipped != "" || !strings.Contains(r.failed, "has no image") {
		t.Errorf("skipped %q, failed %q; want a failure with the reason", r.skipped, r.failed)
	}
}

func TestProbeUnknown(t *testing.T) {
	if err := Probe("flux capacitor"); err == nil {
		t.Error("an unknown need is met, want an error")
	}
}

func TestProbeImage(t *testing.T) {
	home := t.TempDir()
	if probeImage(home, "lab:text") == nil {
		t.Error("an empty store has lab:text")
	}
	tag := filepath.Join(home, imageTagDir, "lab:text")
	if err := os.MkdirAll(tag, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := probeImage(home, "lab:text"); err != nil {
		t.Error(err)
	}
}

// TestProbesHere shows what this machine has; a probe that neither succeeds nor gives a reason would fail it.
func TestProbesHere(t *testing.T) {
	for _, need := range []Need{Root, Userns, KVM, CgroupV1, CgroupV2, Bwrap, Runc, Apt, Sentry, Silk, Image("lab:text")} {
		err := Probe(need)
		if err != nil && err.Error() == "" {
			t.Errorf("%s: no reason given", need)
		}
		t.Logf("%s: %v", need, err)
	}
}

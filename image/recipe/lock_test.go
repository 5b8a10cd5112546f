package recipe

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommittedLocks(t *testing.T) {
	for _, r := range Recipes() {
		t.Run(r.Name, func(t *testing.T) {
			lock, err := Committed(r.Name)
			if err != nil {
				t.Fatal(err)
			}
			if !lock.fits(r) {
				t.Error("the lock does not fit the recipe: run make locks")
			}
			for _, want := range r.Packages {
				if !slices.ContainsFunc(lock.Packages, func(p Package) bool { return p.Name == want }) {
					t.Errorf("package %s is not in the lock", want)
				}
			}
			data, err := lock.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			again, err := ParseLock(data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(lock, again); diff != "" {
				t.Errorf("a lock read back differs:\n%s", diff)
			}
			// No host may be named: no scheme, nothing that is an address.
			if found := regexp.MustCompile(`(?i)[a-z]+://\S*|\bwww\.\S*|"resolved"`).FindString(string(data)); found != "" {
				t.Errorf("the lock names %q", found)
			}
			for word := range strings.FieldsFuncSeq(string(data), func(c rune) bool { return strings.ContainsRune(" \"/,\n", c) }) {
				if net.ParseIP(word) != nil {
					t.Errorf("the lock names the address %q", word)
				}
			}
		})
	}
}

func TestParseLockRefuses(t *testing.T) {
	good := testLock(Package{Name: "a", Version: "1", Path: "pool/main/a/a/a_1_amd64.deb", SHA256: strings.Repeat("a", 64), Size: 1})
	good.NPM = []Tarball{{Name: "@s/n", Version: "1.0.0", Integrity: "sha512-" + strings.Repeat("A", 86) + "=="}}
	text := func(l Lock) string {
		data, err := l.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if _, err := ParseLock([]byte(text(good))); err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, old, new, want string }{
		{"another schema", "silk.lock/v1", "silk.lock/v2", "this silk reads"},
		{"an unknown key", `"suite"`, `"mirror": "x", "suite"`, "unknown field"},
		{"a path that leads out", "pool/main/a/a/a_1", "pool/../../a_1", "not a pool path"},
		{"an absolute path", "pool/main/a/a/a_1", "/pool/main/a", "not a pool path"},
		{"a path with a query", "a_1_amd64.deb", "a_1_amd64.deb?x", "not a pool path"},
		{"a short hash", strings.Repeat("a", 64), strings.Repeat("a", 63), "sha256"},
		{"an upper-case hash", strings.Repeat("a", 64), strings.Repeat("A", 64), "sha256"},
		{"no size", `"size": 1`, `"size": 0`, "size 0"},
		{"a huge size", `"size": 1`, `"size": 9000000000000`, "size 9"},
		{"an option for a name", `"name": "a"`, `"name": "-a"`, "odd"},
		{"an npm name that leads out", "@s/n", "@s/../n", "not a package name"},
		{"an npm package in one that leads out", `"version": "1.0.0",`, `"version": "1.0.0", "in": "../x",`, "not a package name"},
		{"a weak integrity", "sha512-", "sha1-", "integrity"},
		{"other repair rules", `"repairs": 2`, `"repairs": 999`, "repair rules"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changed := strings.Replace(text(good), tt.old, tt.new, 1)
			if changed == text(good) {
				t.Fatal("the case changes nothing")
			}
			if _, err := ParseLock([]byte(changed)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q in it", err, tt.want)
			}
		})
	}
	if _, err := ParseLock([]byte(text(good) + "{}")); err == nil || !strings.Contains(err.Error(), "more than one") {
		t.Errorf("two values: error = %v", err)
	}
}

func FuzzParseLock(f *testing.F) {
	for _, r := range Recipes() {
		data, err := locks.ReadFile("locks/" + LockFile(r.Name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:min(len(data), 4000)])
	}
	f.Add([]byte(`{"schema":"silk.lock/v1","image":"x","suite":"s","arch":"a","repairs":1,"packages":[],"npm":[]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := ParseLock(data)
		if err != nil {
			return
		}
		for _, p := range l.Packages {
			if strings.Contains(p.Path, "..") && strings.Contains("/"+p.Path+"/", "/../") || !strings.HasPrefix(p.Path, "pool/") {
				t.Errorf("path %q was accepted", p.Path)
			}
		}
	})
}

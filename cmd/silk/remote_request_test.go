//go:build unix

package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/serve/servetest"
	"github.com/silk-sandbox/silk/workspace"
)

func TestRequestForFiles(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"run.sh": 0o755, "text": 0o644, "main.py": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	got, err := requestFor(policy.Request{Dir: dir, Code: &policy.Code{Name: "main.py"}}, &runFlags{dir: dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	code, run, text := "main.py", "run.sh", "text"
	want := api.RunRequest{Name: "main.py", Code: &code, Files: []api.File{{Path: "run.sh", Text: &run, Executable: true}, {Path: "text", Text: &text}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestRemoteTree: what a program finds of --dir on a server is what it finds on this host: links as they are, empty directories,
// permissions.
func TestRemoteTree(t *testing.T) {
	s := newRemoteStand(t)
	dir := filepath.Join(s.dir, "tree")
	for _, d := range []string{"empty", "deep/er/empty", "closed"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"run.sh": 0o755, "text": 0o644, "deep/secret": 0o600, "closed/x": 0o750} {
		s.file("tree/"+name, name)
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "closed"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"link": "deep/secret", "deep/up": "../text", "nowhere": "no/such/file", "out": "/etc/passwd", "folder": "deep"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if _, err := workspace.Fill(&b, workspace.Source{Dir: dir}, workspace.FillLimits{}); err != nil {
		t.Fatal(err)
	}
	var want []string
	for tr := tar.NewReader(&b); ; {
		h, err := tr.Next()
		if err != nil {
			break
		}
		want = append(want, strings.TrimSpace(h.FileInfo().Mode().String()+" "+strings.TrimSuffix(h.Name, "/")+" "+h.Linkname))
	}
	for _, args := range [][]string{{"--dir", dir, "--", "fake", "tree"}, {"--dir", dir, "--memory", "1GiB", "--", "fake", "tree"}} {
		c := s.start(auth.Runner, "", append([]string{"run", "-p", servetest.Profile}, args...)...)
		if len(args) > 5 { // the owner sees them too
			waitFor(t, c, "waits for the owner's approval: ")
			got := s.start(auth.Owner, "", "runs", "pending", "--json").wait()
			var list []api.Approval
			if json.Unmarshal([]byte(got.out), &list) != nil || len(list) != 1 {
				t.Fatalf("pending: %+v", got)
			}
			shown := s.start(auth.Owner, "", "runs", "approve", list[0].Run).wait()
			if got := s.start(auth.Owner, "", "runs", "approve", list[0].Run, "--hash", list[0].Hash).wait(); got.status != 0 {
				t.Fatalf("approve: %+v", got)
			}
			for _, text := range []string{"/workspace/out (a link)", "/etc/passwd", "/workspace/empty (a directory)"} {
				if !strings.Contains(shown.out, text) {
					t.Errorf("the owner is not shown %s: %s", text, shown.out)
				}
			}
		}
		got := c.wait()
		lines := strings.Split(strings.TrimSpace(got.out), "\n")
		slices.SortFunc(want, func(a, b string) int { return strings.Compare(a[10:], b[10:]) })
		slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[min(10, len(a)):], b[min(10, len(b)):]) })
		if diff := cmp.Diff(want, lines); diff != "" || got.status != 0 {
			t.Errorf("status %d, %s: %s", got.status, got.err, diff)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "b\xff"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if got := s.silk("run", "-p", servetest.Profile, "--dir", dir, "--", "fake", "tree"); got.status != 125 || !strings.Contains(got.err, `is not UTF-8, and cannot be sent to a server`) {
		t.Errorf("a name that is no text: %+v", got)
	}
}

func TestEndOf(t *testing.T) {
	all := []byte(strings.Repeat("0123456789abcdef", 1000))
	for _, piece := range []int{1, 7, 4095, 4096, 4097, 16000} {
		var e endOf
		for p := all; len(p) > 0; p = p[min(piece, len(p)):] {
			e.add(p[:min(piece, len(p))])
		}
		if !bytes.Equal(e.tail, all[len(all)-tailBytes:]) {
			t.Errorf("in pieces of %d: the end is %d bytes, and another one", piece, len(e.tail))
		}
	}
}

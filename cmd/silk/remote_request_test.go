//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/policy"
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

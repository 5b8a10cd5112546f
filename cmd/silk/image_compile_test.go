//go:build unix

package main

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/image/recipe"
)

func TestCompileIn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image")
	if err := os.WriteFile(path, []byte("root"), 0o600); err != nil {
		t.Fatal(err)
	}
	root, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	tests := []struct {
		name string
		args []string
		want string // in the error; empty: none
	}{
		{"files come out", []string{"fake", "print:chatter", "write:a.pyc=code"}, ""},
		{"exit status", []string{"fake", "eprint:no such module", "exit:2"}, `exit status 2, signal 0: "no such module"`},
		{"signal", []string{"fake", "signal:9"}, "signal 9"},
		{"out of memory", []string{"fake", "alloc:999999999"}, "out of memory"},
		{"violation", []string{"fake", "inet"}, "network"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var names []string
			job := recipe.CompileJob{Args: tt.args, WorkspaceBytes: 1 << 20, MemoryBytes: 1 << 20}
			err := compileIn(&drivertest.Fake{})(t.Context(), root, job, func(r io.Reader) error {
				for in := tar.NewReader(r); ; {
					h, err := in.Next()
					if errors.Is(err, io.EOF) && tt.want != "" {
						return errors.New("nothing was made") // true, but not why
					}
					if errors.Is(err, io.EOF) {
						return nil
					}
					if err != nil {
						return err
					}
					names = append(names, h.Name)
				}
			})
			if tt.want == "" {
				if err != nil || len(names) == 0 || names[len(names)-1] != "a.pyc" {
					t.Errorf("names %q, %v", names, err)
				}
			} else if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	t.Run("canceled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		fake := &drivertest.Fake{Started: func(driver.Spec) { cancel() }}
		err := compileIn(fake)(ctx, root, recipe.CompileJob{Args: []string{"fake", "sleep"}, WorkspaceBytes: 1, MemoryBytes: 1}, func(r io.Reader) error {
			_, err := io.Copy(io.Discard, r)
			return err
		})
		if !errors.Is(err, context.Canceled) || fake.Running() != 0 {
			t.Errorf("got %v, %d running", err, fake.Running())
		}
	})
}

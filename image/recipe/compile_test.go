package recipe

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/silk-sandbox/silk/image"
)

// compiling answers each job with a workspace of these entries.
func compiling(t *testing.T, entries ...entry) CompileFunc {
	return func(_ context.Context, _ *os.File, _ CompileJob, read func(io.Reader) error) error {
		return read(bytes.NewReader(tarOf(t, entries...)))
	}
}

func TestCompileErrorEndsTheBuild(t *testing.T) {
	a := newArchive(t)
	config := testConfig(t, a)
	why := errors.New("no sandbox")
	config.Compile = func(context.Context, *os.File, CompileJob, func(io.Reader) error) error { return why }
	if _, err := Build(t.Context(), Recipe{Name: "lab:py"}, testLock(publishPython(t, a)...), config); !errors.Is(err, why) {
		t.Errorf("error = %v, want %v", err, why)
	}
	if _, err := config.Store.Resolve("lab:py"); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("the store has something: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(config.SpoolDir, ".silk-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestNoCompileWithoutPythonOrGo(t *testing.T) {
	a := newArchive(t)
	config := testConfig(t, a)
	config.Compile = func(context.Context, *os.File, CompileJob, func(io.Reader) error) error {
		t.Error("asked to compile")
		return nil
	}
	if _, err := Build(t.Context(), Recipe{Name: "lab:small"}, testLock(publishBase(t, a)...), config); err != nil {
		t.Fatal(err)
	}
}

package recipe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/silk-sandbox/silk/image"
)

// CompileJob is a command to be run inside an image that is being built.
type CompileJob struct {
	Args           []string
	Env            []string // the whole environment
	WorkspaceBytes int64    // what /workspace must hold
	MemoryBytes    int64    // enough, the workspace not counted
	Trees          []string // what it may read of the image
}

// compilation makes, once, what the programs of one language would else make at each start.
type compilation struct {
	language string
	job      CompileJob
	add      func(t *image.Tree, workspace io.Reader) error // puts what the job made into the image
}

// compile lets config.Compile run the compilations of the languages in t. All see the image as it is before the first.
func compile(ctx context.Context, t *image.Tree, config Config) error {
	var todo []compilation
	for _, of := range []func(*image.Tree) (compilation, bool){pythonFiles, goLibrary} {
		if c, ok := of(t); ok {
			todo = append(todo, c)
		}
	}
	if len(todo) == 0 || config.Compile == nil {
		return nil
	}
	root, err := spoolRoot(t, config.SpoolDir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, c := range todo {
		config.Progress(0, -1, "compiling "+c.language)
		c.job.Trees = t.Trees()
		err := config.Compile(ctx, root, c.job, func(workspace io.Reader) error { return c.add(t, workspace) })
		if err != nil {
			return fmt.Errorf("compile %s: %w", c.language, err)
		}
	}
	return nil
}

// spoolRoot writes t to a file without a name, and opens it as a sandbox takes it: by a descriptor that cannot write.
func spoolRoot(t *image.Tree, dir string) (*os.File, error) {
	file, err := os.CreateTemp(dir, ".silk-root-*")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	root, err := os.Open(file.Name())
	if err = errors.Join(err, os.Remove(file.Name())); err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(file, 1<<20)
	if err := errors.Join(t.WriteEROFS(buffered), buffered.Flush()); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// Command generate makes what package bpf has committed and nobody writes: the BPF object with its Go file, from the C files.
//
// Users have no clang, and another clang makes other bytes. So the object is made anew only if what it is made of is not
// what silk.sums says: `make generate` needs clang only from those who changed a C file, and changes nothing for others.
// A test holds the sums to the files, and another one, where the same clang is installed, the object to its sources.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

const (
	sums     = "silk.sums"
	bpf2go   = "github.com/cilium/ebpf/cmd/bpf2go"
	cflags   = "-O2 -g -Wall -Werror -mcpu=v3 -D__TARGET_ARCH_x86 -I/usr/include/x86_64-linux-gnu"
	packages = "clang, llvm and libbpf-dev"
)

var (
	sources = []string{"silk.bpf.c", "silk.h"}
	objects = []string{"silk_x86_bpfel.go", "silk_x86_bpfel.o"}
)

func main() {
	out := flag.String("out", ".", "directory of the C files and of what is made")
	flag.Parse()
	if err := run(context.Background(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "generate watch/bpf:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, sums))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	want, err := sum(dir, append(slices.Clone(sources), objects...))
	if err == nil && strings.HasPrefix(string(have), want) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // an object that is missing is made
		return err
	}
	clang, err := exec.LookPath("clang")
	if err != nil {
		return fmt.Errorf("%s do not belong together by %s, and making them anew needs %s: %w", strings.Join(sources, ", "), sums, packages, err)
	}
	version, err := output(ctx, clang, "--version")
	if err != nil {
		return err
	}
	// The object names its source, for the verifier's messages: by the same path wherever it lies.
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	flags := cflags + " -fdebug-prefix-map=" + abs + "=/silk"
	if _, err := output(ctx, "go", "run", "-buildvcs=false", bpf2go, "-target", "amd64", "-tags", "linux", "-go-package", "bpf", "-output-dir", dir, "-cc", clang, "-cflags", flags, "silk", filepath.Join(abs, sources[0])); err != nil {
		return err
	}
	if want, err = sum(dir, append(slices.Clone(sources), objects...)); err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(version), "\n")
	return atomicfile.Write(filepath.Join(dir, sums), []byte(want+"# "+first+"\n"), 0o644)
}

// sum is a line for each file, as sha256sum writes it.
func sum(dir string, files []string) (string, error) {
	var b strings.Builder
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(content), name)
	}
	return b.String(), nil
}

func output(ctx context.Context, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var said bytes.Buffer
	cmd.Stderr = io.MultiWriter(os.Stderr, &said)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil, fmt.Errorf("run %s: %w: %s", name, err, strings.TrimSpace(said.String()))
	}
	return out, err
}

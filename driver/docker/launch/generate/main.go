// Command generate makes the launcher from its C file. Users have no compiler, and another one makes other bytes: so it is made
// anew only if what it is made of is not what launch.sums says, and `make generate` needs clang only from those who changed a C
// file. A test holds the sums to the files, and another one, where the same clang is installed, the launcher to its source.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

const sums = "launch.sums"

var (
	files  = []string{"launch.c", "launch.h", "launch"}
	cflags = strings.Fields("-O2 -Wall -Wextra -Werror -Wno-int-conversion -std=c11 -ffreestanding -fno-stack-protector -fno-pic -fno-pie -fno-asynchronous-unwind-tables -fno-ident " +
		"-mgeneral-regs-only -nostdlib -static -s -Wl,--build-id=none,-z,noexecstack,-z,norelro,-n")
)

func main() {
	out := flag.String("out", ".", "directory of the C files and of what is made")
	flag.Parse()
	if err := run(context.Background(), *out); err != nil {
		fmt.Fprintln(os.Stderr, "generate driver/docker/launch:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string) error {
	have, err := os.ReadFile(filepath.Join(dir, sums))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	want, err := sum(dir)
	if err == nil && strings.HasPrefix(string(have), want) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // a launcher that is missing is made
		return err
	}
	version, err := output(ctx, dir, "clang", "--version")
	if err != nil {
		return fmt.Errorf("launch does not belong to its source by %s, and making it anew needs clang: %w", sums, err)
	}
	if _, err := output(ctx, dir, "clang", append(cflags, "-o", "launch", "launch.c")...); err != nil {
		return err
	}
	if err := os.Chmod(filepath.Join(dir, "launch"), 0o644); err != nil { // it is embedded, not run from here
		return err
	}
	if want, err = sum(dir); err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(version), "\n")
	return atomicfile.Write(filepath.Join(dir, sums), []byte(want+"# "+first+"\n"), 0o644)
}

// sum is a line for each file, as sha256sum writes it.
func sum(dir string) (string, error) {
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

func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w: %s", name, err, strings.TrimSpace(said.String()))
	}
	return out, nil
}

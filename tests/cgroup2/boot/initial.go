package main

import (
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"

	"github.com/silk-sandbox/silk/image"
)

// initial builds the programs of the machine and writes its initial file system below dir.
func (c config) initial(ctx context.Context, dir string) (path string, err error) {
	const module = "github.com/silk-sandbox/silk/"
	for _, build := range [][]string{
		{"build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, "init"), module + "tests/cgroup2/init"},
		{"test", "-c", "-trimpath", "-o", filepath.Join(dir, "limits.test"), module + "tests/cgroup2"},
		{"test", "-c", "-trimpath", "-o", filepath.Join(dir, "cgroup.test"), module + "internal/cgroup"},
	} {
		cmd := command(ctx, "", "go", build...)
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("go %s: %w", build[0], err)
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, "initial.cpio"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	defer func() {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = fmt.Errorf("write initial file system: %w", cerr)
		}
	}()
	a := newArchive(f)
	a.device("dev/console", 5, 1) // Documentation/admin-guide/devices.txt
	a.file("init", filepath.Join(dir, "init"), 0o755)
	for name, src := range map[string]string{
		"busybox": c.busybox, "silk": c.silk, "silk-sentry": c.sentry,
		"limits.test": filepath.Join(dir, "limits.test"), "cgroup.test": filepath.Join(dir, "cgroup.test"),
	} {
		if err := static(src); err != nil {
			return "", err
		}
		a.file("silk/bin/"+name, src, 0o755)
	}
	if err := c.addImage(a); err != nil {
		return "", err
	}
	return f.Name(), a.finish()
}

// static is nil for a program that needs no other file to run: the machine has none.
func static(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("read program %s: %w", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s is linked dynamically; build it with CGO_ENABLED=0, as make build does", path)
		}
	}
	return nil
}

// addImage adds the one image that the tests use, as a store.
func (c config) addImage(a *archive) error {
	const tag = "lab:text"
	dir := filepath.Join(c.home, "images")
	store, err := image.Open(image.Config{Home: dir})
	if err != nil {
		return err
	}
	img, err := store.Resolve(tag)
	if err != nil {
		return err
	}
	hex := img.Digest.Hex()
	for _, name := range []string{"blobs/sha256-" + hex + ".erofs", "meta/" + hex + ".json", "tags/" + tag} {
		a.file("silk/images/"+name, filepath.Join(dir, name), 0o444)
	}
	return nil
}

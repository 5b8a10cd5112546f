//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// dir is where the files of the tests are, in the initial file system and later.
const dir = "/silk"

// makeSystem mounts what a system has. The root becomes a file system of its own, as everywhere: the initial one cannot
// be left by pivot_root(2), which a sandbox does.
func makeSystem() error {
	const root = "/new"
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := mount("tmpfs", root, "mode=755", 0); err != nil {
		return err
	}
	for _, d := range []string{"proc", "sys", "dev", "tmp", "run", "bin", "etc", "root", dir} {
		if err := os.Mkdir(filepath.Join(root, d), 0o755); err != nil {
			return err
		}
	}
	for _, m := range []struct{ kind, target, options string }{
		{"proc", "proc", ""}, {"sysfs", "sys", ""}, {"devtmpfs", "dev", "mode=755"}, {"tmpfs", "tmp", "mode=1777"}, {"cgroup2", groups, ""},
	} {
		if err := mount(m.kind, filepath.Join(root, m.target), m.options, 0); err != nil {
			return err
		}
	}
	if err := mount(dir, filepath.Join(root, dir), "", syscall.MS_BIND); err != nil {
		return err
	}
	if err := links(root); err != nil {
		return err
	}
	// switch_root(8) does the same.
	if err := errors.Join(os.Chdir(root), mount(".", "/", "", syscall.MS_MOVE), syscall.Chroot("."), os.Chdir("/")); err != nil {
		return fmt.Errorf("move to the new root: %w", err)
	}
	return nil
}

func mount(source, target, options string, flags uintptr) error {
	if err := syscall.Mount(source, target, source, flags, options); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
	return nil
}

// links names the programs that tests start.
func links(root string) error {
	for _, name := range []string{"sh", "sleep", "true", "cat"} {
		if err := os.Symlink(dir+"/bin/busybox", filepath.Join(root, "bin", name)); err != nil {
			return err
		}
	}
	return nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// enter makes root a file system like that of a sandbox, as far as paths are concerned, and runs command in it as uid.
// The probe itself and cases.json, if it stands beside it, are copied there; answers.json is written to stdout.
func enter(root, uid string, command []string) error {
	id, err := strconv.ParseUint(uid, 10, 32)
	if err != nil {
		return err
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make mounts private: %w", err)
	}
	in := func(name string) string { return filepath.Join(root, name) }
	tmpfs := func(name string, flags uintptr, options string) error {
		if err := os.MkdirAll(in(name), 0o755); err != nil {
			return err
		}
		if err := syscall.Mount("tmpfs", in(name), "tmpfs", syscall.MS_NOSUID|flags, options); err != nil {
			return fmt.Errorf("mount %s: %w", name, err)
		}
		return nil
	}
	if err := errors.Join(tmpfs("", 0, "mode=0755"), tmpfs("workspace", 0, fmt.Sprintf("mode=0755,uid=%d", id)), tmpfs("tmp", syscall.MS_NOEXEC, "mode=1777"), tmpfs("dev", 0, "mode=0755")); err != nil {
		return err
	}
	for dir, mode := range map[string]os.FileMode{"proc": 0o555, "etc": 0o755, "boot": 0o755, "root": 0o700, "sys": 0o555, "home": 0o755, "usr": 0o755, "dev/net": 0o755, "dev/shm": 0o777} {
		if err := errors.Join(os.MkdirAll(in(dir), mode), os.Chmod(in(dir), mode)); err != nil {
			return err
		}
	}
	if err := errors.Join(
		os.Symlink("/proc/self/fd", in("dev/fd")),
		syscall.Mount("proc", in("proc"), "proc", syscall.MS_NOSUID|syscall.MS_NODEV, ""),
		copyFile("/proc/self/exe", in("workspace/probe"), 0o755, int(id)),
		copyFile("cases.json", in("workspace/cases.json"), 0o644, int(id)),
		syscall.Mount("", root, "", syscall.MS_REMOUNT|syscall.MS_RDONLY|syscall.MS_NOSUID, ""),
		syscall.Chroot(root),
		os.Chdir("/workspace"),
	); err != nil {
		return err
	}
	cmd := exec.CommandContext(context.Background(), "/workspace/probe", command...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(id), Gid: uint32(id)}}
	if err := cmd.Run(); err != nil {
		return err
	}
	answers, err := os.Open("/workspace/answers.json")
	if err != nil {
		return err
	}
	defer answers.Close()
	_, err = io.Copy(os.Stdout, answers)
	return err
}

// copyFile copies a file that may be absent.
func copyFile(from, to string, mode os.FileMode, uid int) error {
	data, err := os.ReadFile(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(os.WriteFile(to, data, mode), os.Chown(to, uid, uid)) //nolint:forbidigo // nobody else sees that mount
}

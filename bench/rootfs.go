//go:build linux

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/erofs/go-erofs"
	"golang.org/x/sys/unix"
)

// rootfs is an image that has been copied into a directory.
type rootfs struct {
	tag string
	dir string
}

// unpack copies an EROFS file into dir: names, contents, links, who may execute. Owners stay behind: everything is readable
// for all in a lab image.
func unpack(tag string, file io.ReaderAt, dir string) (rootfs, error) {
	img, err := erofs.Open(file)
	if err != nil {
		return rootfs{}, fmt.Errorf("read image %s: %w", tag, err)
	}
	defer syscall.Umask(syscall.Umask(0))
	if err := os.CopyFS(dir, img); err != nil {
		return rootfs{}, fmt.Errorf("unpack image %s: %w", tag, err)
	}
	for _, mount := range []string{"proc", "dev", "tmp", "workspace", "sys"} {
		if err := os.MkdirAll(filepath.Join(dir, mount), 0o755); err != nil {
			return rootfs{}, fmt.Errorf("unpack image %s: %w", tag, err)
		}
	}
	if os.Geteuid() == 0 {
		if err := furnish(dir); err != nil {
			return rootfs{}, fmt.Errorf("unpack image %s: %w", tag, err)
		}
	}
	return rootfs{tag, dir}, nil
}

// furnish makes what the plain process finds in no mount of its own: two devices (numbers from
// Documentation/admin-guide/devices.txt of Linux) and a directory that it may write to.
func furnish(dir string) error {
	for minor, name := range map[uint32]string{3: "null", 5: "zero"} {
		err := unix.Mknod(filepath.Join(dir, "dev", name), unix.S_IFCHR|0o666, int(unix.Mkdev(1, minor)))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("make device %s: %w", name, err)
		}
	}
	return os.Chown(filepath.Join(dir, "workspace"), guestID, guestID)
}

// find returns the path of a command inside the image.
func (r rootfs) find(command string) (string, error) {
	if strings.Contains(command, "/") {
		return command, nil
	}
	for _, dir := range strings.Split(strings.TrimPrefix(guestEnv[0], "PATH="), ":") {
		path := filepath.Join(dir, command)
		// Lstat: links in an image are absolute and would lead to the host's files from here.
		if _, err := os.Lstat(filepath.Join(r.dir, path)); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", fmt.Errorf("image %s has no command %s", r.tag, command)
}

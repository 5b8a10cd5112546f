package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/firecracker/wire"
	"github.com/silk-sandbox/silk/driver/rules"
)

// newRoot is where the program's root directory is, until it is the root.
const newRoot = "/newroot"

// makeRoot makes the program's file systems: the image, and what is writable.
func makeRoot(p wire.Plan) error {
	if len(p.Drives) != len(p.Mounts)+1 {
		return fmt.Errorf("a plan with %d drives for %d mounts and the root", len(p.Drives), len(p.Mounts))
	}
	device, err := drive(p.Drives[0])
	if err != nil {
		return err
	}
	const quiet = unix.MS_NOSUID | unix.MS_NODEV
	mounts := []mount{
		{device, newRoot, "erofs", unix.MS_RDONLY | quiet, ""},
		{"proc", newRoot + "/proc", "proc", hard, "hidepid=invisible"}, // others' are the agent and the kernel
		{"dev", newRoot + "/dev", "tmpfs", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=755,size=64k,nr_inodes=64"},
		{"tmp", newRoot + "/tmp", "tmpfs", hard, fmt.Sprintf("mode=1777,size=%d", p.TmpBytes)},
		{"workspace", newRoot + "/workspace", "tmpfs", quiet, workspaceOptions(p)},
	}
	for _, m := range mounts {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil { // the image has the directories
			if m.target == newRoot && errors.Is(err, unix.ENOENT) {
				if err = os.Mkdir(newRoot, 0o755); err == nil {
					err = m.do()
				}
			}
			if err != nil {
				return fmt.Errorf("mount %s on %s: %w", m.source, m.target, err)
			}
		}
	}
	if err := errors.Join(makeDevices(p), makeSys()); err != nil {
		return err
	}
	return layOver(p.Files)
}

func workspaceOptions(p wire.Plan) string {
	options := fmt.Sprintf("mode=755,size=%d", p.WorkspaceBytes)
	if !p.ReadOnly {
		options += fmt.Sprintf(",uid=%d,gid=%d", confine.User, confine.User)
	}
	return options
}

// makeDevices fills /dev. Documentation/admin-guide/devices.txt has the numbers.
func makeDevices(p wire.Plan) error {
	dev := newRoot + "/dev/"
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		if err := unix.Mknod(dev+d.name, unix.S_IFCHR|0o666, int(unix.Mkdev(d.major, d.minor))); err != nil {
			return fmt.Errorf("make device %s: %w", d.name, err)
		}
		if err := os.Chmod(dev+d.name, 0o666); err != nil { // whatever the mask is
			return err
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, dev+name); err != nil {
			return err
		}
	}
	if err := errors.Join(os.Mkdir(dev+"pts", 0o755), os.Mkdir(dev+"shm", 0o755)); err != nil {
		return err
	}
	if err := unix.Mount("/dev/pts", dev+"pts", "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount terminals: %w", err)
	}
	if p.ShmBytes == 0 {
		return nil
	}
	return mount{"shm", dev + "shm", "tmpfs", hard, fmt.Sprintf("mode=1777,size=%d", p.ShmBytes)}.do()
}

// makeSys fills /sys: copies of those files of the kernel's that the start-up list has, and the directories on the way. Who walks through all of it finds nothing
// that is forbidden, and nobody finds a lever of the kernel's.
func makeSys() error {
	sys := mount{"sys", newRoot + "/sys", "tmpfs", hard, "mode=755,size=64k,nr_inodes=64"}
	if err := sys.do(); err != nil {
		return err
	}
	for _, e := range rules.Startup() {
		if e.Hidden || !rules.Covers("/sys", e.Name) {
			continue
		}
		content, err := os.ReadFile(e.Name)
		if errors.Is(err, fs.ErrNotExist) { // of a kernel that has no such thing
			continue
		}
		if err == nil {
			err = os.MkdirAll(newRoot+path.Dir(e.Name), 0o755)
		}
		if err == nil {
			err = makeFile(newRoot+e.Name, content)
		}
		if err != nil {
			return fmt.Errorf("fill /sys: %w", err)
		}
	}
	if err := unix.Mount("", sys.target, "", unix.MS_REMOUNT|unix.MS_RDONLY|hard, ""); err != nil {
		return fmt.Errorf("close /sys: %w", err)
	}
	return nil
}

// layOver lays files over those of the image, read-only.
func layOver(files []driver.File) error {
	if len(files) == 0 {
		return nil
	}
	root, err := confine.OpenRoot(newRoot)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := os.Mkdir("/files", 0o755); err != nil {
		return err
	}
	for i, f := range files {
		if err := layOne(root, "/files/"+strconv.Itoa(i), f); err != nil {
			return fmt.Errorf("lay %s over the image's: %w", f.Path, err)
		}
	}
	return nil
}

func layOne(root confine.Root, source string, f driver.File) error {
	content := f.Content
	if f.After {
		fd, err := root.At(f.Path, unix.O_RDONLY)
		if err != nil {
			return err
		}
		was := os.NewFile(uintptr(fd), f.Path)
		before, err := io.ReadAll(was)
		if err = errors.Join(err, was.Close()); err != nil {
			return err
		}
		content = append(before, content...)
	}
	if err := makeFile(source, content); err != nil {
		return err
	}
	if err := mountAt(root, f.Path, mount{source: source, flags: unix.MS_BIND}); err != nil {
		return err
	}
	return mountAt(root, f.Path, mount{flags: unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | hard})
}

// makeFile makes a file that everybody may read.
func makeFile(name string, content []byte) error {
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = out.Write(content)
	return errors.Join(err, out.Close())
}

// mountAt mounts over a path of the program's, whose links lead to what they lead to there.
func mountAt(root confine.Root, name string, m mount) error {
	fd, err := root.At(name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Mount(m.source, "/proc/self/fd/"+strconv.Itoa(fd), m.kind, m.flags, m.data)
}

// mountOthers mounts the plan's other file systems over directories of the workspace, which has been filled.
func mountOthers(p wire.Plan) error {
	if len(p.Mounts) == 0 {
		return nil
	}
	root, err := confine.OpenRoot(newRoot)
	if err != nil {
		return err
	}
	defer root.Close()
	workspace, err := os.OpenRoot(newRoot + "/workspace")
	if err != nil {
		return err
	}
	defer workspace.Close()
	for i, target := range p.Mounts {
		device, err := drive(p.Drives[i+1])
		if err != nil {
			return err
		}
		below, ok := strings.CutPrefix(target, "/workspace/")
		if !ok {
			return fmt.Errorf("mount on %s: it is not below /workspace", target)
		}
		if err := workspace.MkdirAll(below, 0o755); err != nil {
			return fmt.Errorf("mount on %s: %w", target, err)
		}
		if err := mountAt(root, target, mount{source: device, kind: "erofs", flags: unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV}); err != nil {
			return fmt.Errorf("mount on %s: %w", target, err)
		}
	}
	return nil
}

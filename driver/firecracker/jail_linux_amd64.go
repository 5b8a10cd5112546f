package firecracker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/cgroup"
	"github.com/silk-sandbox/silk/internal/lockfile"
)

// jail is the root directory of one VMM, where the jailer looks for it: BASE/firecracker/ID/root. Nobody else has the id, or the user. Beside it, in
// BASE/locks, is a file that silk holds for as long as it lives.
type jail struct {
	dir  string // BASE/firecracker/ID
	id   string
	uid  uint32
	root *os.File // names below it are as short as a socket's must be
	lock *lockfile.Lock
}

const jailLocks = "locks"

// makeJail makes an empty one. It is removed when the VMM is gone.
func makeJail(base, executable, run string) (_ *jail, err error) {
	if err := errors.Join(os.MkdirAll(filepath.Join(base, jailLocks), 0o700), os.MkdirAll(filepath.Join(base, executable), 0o700)); err != nil {
		return nil, fmt.Errorf("make jail: %w", err)
	}
	var random [8]byte
	_, _ = rand.Read(random[:])                                                                     // never fails: crypto/rand
	j := &jail{id: run[:min(len(run), 40)] + "-" + hex.EncodeToString(random[:]), uid: nobodysID()} // the jailer takes 64 bytes
	j.dir = filepath.Join(base, executable, j.id)
	if j.lock, err = lockfile.Create(filepath.Join(base, jailLocks, j.id)); err != nil { // first: whoever sweeps asks it
		return nil, fmt.Errorf("make jail: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("make jail: %w", err), j.remove(context.Background()))
		}
	}()
	if err := os.Mkdir(j.dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Mkdir(filepath.Join(j.dir, "root"), 0o700); err != nil {
		return nil, err
	}
	j.root, err = os.Open(filepath.Join(j.dir, "root"))
	return j, err
}

// remove removes it with all that the VMM has made in it, without following a link.
func (j *jail) remove(context.Context) error {
	var errs []error
	if j.root != nil {
		errs = append(errs, j.root.Close())
	}
	errs = append(errs, os.RemoveAll(j.dir), j.lock.Remove())
	return errors.Join(errs...)
}

// path is a name of the jail's as this process has it.
func (j *jail) path(name string) string { return fdPath(int(j.root.Fd())) + "/" + name }

// put makes a file appear in the jail, to be read there: another name of it, or a copy where it cannot have one, as on another file system, or
// where not everybody may read it. It returns the serial number that the VMM gives to a drive of it.
func (j *jail) put(name string, f *os.File) (serial string, err error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return "", fmt.Errorf("put %s into the jail: %w", name, err)
	}
	if s.Mode&0o004 == 0 || s.Mode&0o002 != 0 || unix.Linkat(unix.AT_FDCWD, fdPath(int(f.Fd())), int(j.root.Fd()), name, unix.AT_SYMLINK_FOLLOW) != nil {
		if err := j.copy(name, f, s.Size); err != nil {
			return "", fmt.Errorf("put %s into the jail: %w", name, err)
		}
	}
	if err := unix.Fstatat(int(j.root.Fd()), name, &s, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return "", fmt.Errorf("put %s into the jail: %w", name, err)
	}
	return driveSerial(s.Dev, s.Rdev, s.Ino), nil
}

func (j *jail) copy(name string, f *os.File, size int64) error {
	to, err := os.OpenFile(j.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, io.NewSectionReader(f, 0, size))
	return errors.Join(err, to.Close())
}

// listen listens where the VMM takes the guest's calls to a port. Only the VMM can call.
func (j *jail) listen(port uint32) (*net.UnixListener, error) {
	path := j.path(jailVsock + "_" + strconv.FormatUint(uint64(port), 10))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("make the machine's vsock: %w", err)
	}
	if err := errors.Join(os.Chown(path, int(j.uid), int(j.uid)), os.Chmod(path, 0o600)); err != nil {
		return nil, errors.Join(fmt.Errorf("make the machine's vsock: %w", err), l.Close())
	}
	return l, nil
}

// dial connects to the VMM's API. Nothing of the guest's has run yet, so what is there is what Firecracker has made.
func (j *jail) dial(ctx context.Context) (net.Conn, error) {
	return new(net.Dialer).DialContext(ctx, "unix", j.path(jailAPI))
}

// inmate is what is remembered of a VMM, for a silk that comes after this one.
type inmate struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since boot, field 22 of proc_pid_stat(5)
	Boot  string `json:"boot"`  // which boot
}

// bootID names this boot of the host: numbers of processes, and their times, begin anew with each.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(b)), err
}

const inmateFile = "inmate.json"

// note remembers the VMM's process, which was not waited for.
func (j *jail) note(pid int) error {
	start, err := cgroup.StartTime(pid)
	if err != nil {
		return fmt.Errorf("note the VMM's process: %w", err)
	}
	boot, err := bootID()
	if err != nil {
		return fmt.Errorf("note the VMM's process: %w", err)
	}
	b, err := json.Marshal(inmate{pid, start, boot})
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(j.dir, inmateFile), b, 0o600)
}

// leftJails are the jails whose silk is gone, whatever their VMM is called.
func leftJails(base string) (dirs []string, err error) {
	names, err := below(base)
	errs := []error{err}
	for _, name := range names {
		if name == jailLocks {
			continue
		}
		ids, err := below(filepath.Join(base, name))
		errs = append(errs, err)
		for _, id := range ids {
			held, err := lockfile.Held(filepath.Join(base, jailLocks, id))
			errs = append(errs, err)
			if !held {
				dirs = append(dirs, filepath.Join(base, name, id))
			}
		}
	}
	return dirs, errors.Join(errs...)
}

// below are the names in a directory, none if it is not there or another user's.
func below(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for jails that were left: %w", err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// sweepJails ends the VMMs of silks that are gone, and removes their jails and locks.
func sweepJails(ctx context.Context, base string) error {
	locks, err := below(filepath.Join(base, jailLocks)) // before the jails: one that is made meanwhile has a lock that is not looked at
	errs := []error{err}
	dirs, err := leftJails(base)
	errs = append(errs, err)
	for _, dir := range dirs {
		if err := endInmate(ctx, filepath.Join(dir, inmateFile)); err != nil {
			errs = append(errs, fmt.Errorf("end the VMM of %s: %w", dir, err))
			continue
		}
		errs = append(errs, os.RemoveAll(dir))
	}
	jails := map[string]bool{}
	names, err := below(base)
	errs = append(errs, err)
	for _, name := range names {
		if name != jailLocks {
			ids, err := below(filepath.Join(base, name))
			errs = append(errs, err)
			for _, id := range ids {
				jails[id] = true
			}
		}
	}
	for _, name := range locks {
		path := filepath.Join(base, jailLocks, name)
		if held, err := lockfile.Held(path); err != nil || held || jails[name] || strings.HasSuffix(name, lockfile.Making) {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// endInmate ends the process that a file is about, if it is still that one: a number that was given again has another start time.
func endInmate(ctx context.Context, path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) { // it was not started
		return nil
	}
	if err != nil {
		return err
	}
	var i inmate
	if err := json.Unmarshal(b, &i); err != nil || i.PID <= 1 {
		return nil // half a file: of a silk that was killed when it wrote it, whose VMM had nothing to run
	}
	if boot, err := bootID(); err != nil || boot != i.Boot {
		return err // of a boot before this one nothing runs
	}
	fd, err := unix.PidfdOpen(i.PID, 0) // from here on the number is not given again
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	start, err := cgroup.StartTime(i.PID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && start != i.Start {
		return nil
	}
	if err != nil {
		return err
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return err
	}
	wait, cancel := context.WithTimeout(ctx, teardownTimeout)
	defer cancel()
	for {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, int((100 * time.Millisecond).Milliseconds())); n > 0 || err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if err := context.Cause(wait); err != nil {
			return err
		}
	}
}

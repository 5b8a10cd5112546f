package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Root is the root directory of programs, seen from outside. None of them can get another one.
type Root struct{ fd int }

// OpenRoot opens it. Close it.
func OpenRoot(dir string) (Root, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return Root{-1}, fmt.Errorf("open the program's root: %w", err)
	}
	return Root{fd}, nil
}

// Close gives it back.
func (r Root) Close() { _ = unix.Close(r.fd) }

// At opens a path of the programs', whose links lead to what they lead to there.
func (r Root) At(name string, flags uint64) (int, error) {
	return r.open(name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS})
}

// named opens a path without links on its way and in its end.
func (r Root) named(name string, flags uint64) (int, error) {
	return r.open(name, &unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS})
}

// open is openat2(2), which gives up when something is renamed or mounted anywhere meanwhile.
func (r Root) open(name string, how *unix.OpenHow) (fd int, err error) {
	for range 1000 {
		if fd, err = unix.Openat2(r.fd, name, how); !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
	return fd, err
}

// Caller is a thread that makes a call.
type Caller struct {
	Thread int // as this process's namespace numbers it
	Self   int // its process, as its own namespace numbers it
	Number int // itself, as its own namespace numbers it
}

// callerOf finds out whose thread it is.
func callerOf(thread int) (Caller, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(thread) + "/status")
	if err != nil {
		return Caller{}, err
	}
	last := func(key string) int { // the innermost namespace's number
		_, rest, _ := bytes.Cut(text, []byte("\n"+key+":"))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		fields := bytes.Fields(line)
		if len(fields) == 0 {
			return 0
		}
		n, _ := strconv.Atoi(string(fields[len(fields)-1]))
		return n
	}
	return Caller{thread, last("NStgid"), last("NSpid")}, nil
}

// maxLinks bounds the links that are followed, as the kernel's MAXSYMLINKS does (include/linux/namei.h).
const maxLinks = 40

// errLoop is what the kernel will say too.
var errLoop = errors.New("too many links")

// resolve says what a path of a caller leads to: dir is where it begins if it is relative. follow is whether a link in its end counts.
// It is what the kernel is about to do, done beforehand: whoever changes links in between gets what the walls behind allow.
func (r Root) resolve(c Caller, dir, name string, follow bool) (Object, error) {
	if !path.IsAbs(name) {
		name = dir + "/" + name
	}
	// Without a link on the way there is nothing to do, and the kernel says so.
	if !strings.Contains(name, "..") {
		clean := path.Clean(name)
		if fd, err := r.named(clean, unix.O_PATH|unix.O_NOFOLLOW); err == nil {
			mode, err := modeOf(fd)
			_ = unix.Close(fd)
			if err == nil && (mode != unix.S_IFLNK || !follow) {
				return Object{Path: clean, Directory: mode == unix.S_IFDIR, Link: mode == unix.S_IFLNK}, nil
			}
		}
	}
	at, rest := "/", strings.Split(name, "/")
	isDir, absent, isLink := true, false, false
	for links := 0; len(rest) > 0; {
		part := rest[0]
		rest = rest[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at, isDir, absent, isLink = path.Dir(at), true, false, false
			continue
		}
		next := path.Join(at, part)
		if own, ok := c.own(next); ok {
			rest = append(strings.Split(own, "/"), rest...)
			at = "/"
			continue
		}
		fd, err := r.named(next, unix.O_PATH|unix.O_NOFOLLOW)
		if err != nil { // not there: what is left are names
			at, isDir, absent, isLink = next, false, true, false
			continue
		}
		mode, err := modeOf(fd)
		if err != nil || mode != unix.S_IFLNK || len(rest) == 0 && !follow {
			_ = unix.Close(fd)
			at, isDir, absent, isLink = next, mode == unix.S_IFDIR, false, mode == unix.S_IFLNK
			continue
		}
		target, err := readlink(fd)
		_ = unix.Close(fd)
		if err != nil {
			return Object{}, err
		}
		if links++; links > maxLinks {
			return Object{}, errLoop
		}
		if ofProcess(next) { // its text is what the kernel makes of it: a path, or none
			if !path.IsAbs(target) || strings.HasPrefix(target, "/memfd:") {
				return Object{Anonymous: true}, nil
			}
			target = strings.TrimSuffix(target, " (deleted)")
			follow = follow && len(rest) > 0 // it leads to the file itself, which may be a link
		}
		if path.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
		isDir, absent, isLink = true, false, false
	}
	return Object{Path: at, Directory: isDir, Absent: absent, Link: isLink}, nil
}

// own is what the links of /proc mean that are different for everybody who follows them.
func (c Caller) own(name string) (string, bool) {
	switch name {
	case "/proc/self":
		return "/proc/" + strconv.Itoa(c.Self), true
	case "/proc/thread-self":
		return fmt.Sprintf("/proc/%d/task/%d", c.Self, c.Number), true
	}
	return "", false
}

// directory is the path of the directory that a call begins at: a descriptor of the caller, or where it is.
func (c Caller) directory(fd int32) (string, error) {
	link := "/proc/" + strconv.Itoa(c.Thread) + "/cwd"
	if fd != unix.AT_FDCWD {
		link = fmt.Sprintf("/proc/%d/fd/%d", c.Thread, fd)
	}
	text, err := os.Readlink(link)
	return strings.TrimSuffix(text, " (deleted)"), err
}

func modeOf(fd int) (uint32, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return 0, err
	}
	return s.Mode & unix.S_IFMT, nil
}

func readlink(fd int) (string, error) {
	b := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", b)
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

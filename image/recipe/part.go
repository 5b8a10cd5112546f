package recipe

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// part is a file that is being downloaded, owned by this process. Its name holds the process id, "X.<pid>-<n>.part",
// so that two processes never write to the same one; at rest it is "X.part", and whoever comes next goes on with it.
type part struct {
	*os.File
	rest string // name at rest
	size int64
	done bool
}

// claimPart opens the part of the cache file at path: one at rest or of a process that is gone, else a new one.
func claimPart(path string) (*part, error) {
	rest := path + ".part"
	own, err := os.CreateTemp(filepath.Dir(path), fmt.Sprintf("%s.%d-*.part", filepath.Base(path), os.Getpid()))
	if err != nil {
		return nil, fmt.Errorf("make a file in the package cache: %w", err)
	}
	p := &part{File: own, rest: rest}
	for _, name := range append([]string{rest}, orphanParts(path)...) {
		if os.Rename(name, own.Name()) != nil { // somebody else was faster, or there is none
			continue
		}
		taken, err := os.OpenFile(own.Name(), os.O_RDWR|os.O_APPEND, 0)
		if err != nil {
			continue
		}
		_ = own.Close() // the empty file whose name was taken over
		p.File = taken
		if info, err := taken.Stat(); err == nil {
			p.size = info.Size()
		}
		break
	}
	return p, nil
}

// orphanParts lists the parts of processes that do not live any more.
func orphanParts(path string) []string {
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil
	}
	var orphans []string
	for _, e := range entries {
		owner, ok := strings.CutPrefix(e.Name(), filepath.Base(path)+".")
		pid, _, isPart := strings.Cut(owner, "-")
		n, err := strconv.Atoi(pid)
		if !ok || !isPart || err != nil || n == os.Getpid() {
			continue
		}
		if process, err := os.FindProcess(n); err != nil || errors.Is(process.Signal(syscall.Signal(0)), os.ErrProcessDone) {
			orphans = append(orphans, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	return orphans
}

func (p *part) dir() string { return filepath.Dir(p.rest) }

func (p *part) Write(data []byte) (int, error) {
	n, err := p.File.Write(data)
	p.size += int64(n)
	return n, err
}

func (p *part) truncate() error {
	p.size = 0
	_, err := p.Seek(0, io.SeekStart)
	return errors.Join(p.Truncate(0), err)
}

// verify compares the whole part with what the lock says.
func (p *part) verify(it item) error {
	return verify(it, io.NewSectionReader(p, 0, p.size), p.size)
}

// commit gives the part its name in the cache.
func (p *part) commit(path string) error {
	err := errors.Join(p.Chmod(0o644), p.Sync(), p.Close())
	if err == nil {
		err = os.Rename(p.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("keep a package in the cache: %w", err)
	}
	p.done = true
	return nil
}

// release gives up a part that was not committed: what came is kept for the next attempt.
func (p *part) release() {
	if p.done {
		return
	}
	_ = p.Close() // nothing but a cache is lost
	if p.size == 0 {
		_ = os.Remove(p.Name())
		return
	}
	_ = os.Rename(p.Name(), p.rest)
}

// verify compares size bytes with what the lock says.
func verify(it item, r io.Reader, size int64) error {
	if it.size > 0 && size != it.size {
		return &mismatchError{it.label, fmt.Sprintf("%d bytes", size), fmt.Sprintf("%d", it.size)}
	}
	sum := it.hash()
	if _, err := io.Copy(sum, r); err != nil {
		return fmt.Errorf("%s: read the package cache: %w", it.label, err)
	}
	if got := sum.Sum(nil); !bytes.Equal(got, it.sum) {
		return &mismatchError{it.label, hex.EncodeToString(got), hex.EncodeToString(it.sum)}
	}
	return nil
}

// cached tells whether it is in the cache, whole. What is damaged is removed.
func (it item) cached() (bool, error) {
	f, err := os.Open(it.path)
	if missing(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read the package cache: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, fmt.Errorf("read the package cache: %w", err)
	}
	err = verify(it, f, info.Size())
	if errors.As(err, new(*mismatchError)) {
		return false, os.Remove(it.path)
	}
	return err == nil, err
}

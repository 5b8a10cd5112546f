package bpf

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/calltable"
)

// Check makes harmless calls of our own, each of which the kernel refuses, and looks whether the programs saw them. An
// error means that nothing is watched: a sandbox must not start. It takes some microseconds.
func (w *Watcher) Check() error {
	w.checking.Lock()
	defer w.checking.Unlock()
	if err := w.Err(); err != nil {
		return err
	}
	before, err := w.beats()
	if err != nil {
		return err
	}
	c := uintptr(w.cookie)
	for _, number := range []uintptr{unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_OPENAT, unix.SYS_EXECVE, unix.SYS_SETUID, unix.SYS_CAPSET, unix.SYS_MOUNT} {
		if _, _, errno := unix.RawSyscall6(number, c, 0, 0, 0, 0, 0); errno == 0 {
			return fmt.Errorf("check watcher: %s with impossible arguments was not refused", calltable.Name(int(number)))
		}
	}
	// ptrace(2): a process cannot attach to itself, EPERM.
	if _, _, errno := unix.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_ATTACH, uintptr(os.Getpid()), c, 0, 0, 0); errno != unix.EPERM {
		return fmt.Errorf("check watcher: ptrace of this process: %w", errno)
	}
	after, err := w.beats()
	if err != nil {
		return err
	}
	for _, kind := range []int{kindSocket, kindConnect, kindOpenAt, kindExecve, kindSetUID, kindCapSet, kindMount, kindDenied} {
		if after[kind] == before[kind] {
			return fmt.Errorf("check watcher: the kernel did not show it our own call of kind %s", kinds[kind])
		}
	}
	for _, l := range w.links {
		if _, err := l.Info(); err != nil {
			return fmt.Errorf("check watcher: ask for its programs: %w", err)
		}
	}
	return nil
}

func (w *Watcher) beats() (n [len(kinds)]uint64, err error) {
	for kind := range n {
		var each []uint64 // by processor
		if err := w.kernel.Beats.Lookup(uint32(kind), &each); err != nil {
			return n, fmt.Errorf("check watcher: %w", err)
		}
		for _, v := range each {
			n[kind] += v
		}
	}
	return n, nil
}

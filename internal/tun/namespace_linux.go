package tun

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// errOwn keeps a mistake from changing the ways of the host.
var errOwn = errors.New("the network namespace is that of this process")

// within calls do in another network namespace, by a thread that is there for so long.
func within(netns *os.File, do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		own, err := os.Open("/proc/thread-self/ns/net")
		if err != nil {
			runtime.UnlockOSThread()
			result <- err
			return
		}
		defer own.Close()
		if err = different(own, netns); err == nil {
			err = unix.Setns(int(netns.Fd()), unix.CLONE_NEWNET)
		}
		if err != nil {
			runtime.UnlockOSThread()
			result <- fmt.Errorf("enter network namespace: %w", err)
			return
		}
		err = do()
		if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back == nil { // else the thread ends with this function, and nobody else is in there
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

func different(own, other *os.File) error {
	a, err := own.Stat()
	if err != nil {
		return err
	}
	b, err := other.Stat()
	if err == nil && os.SameFile(a, b) {
		err = errOwn
	}
	return err
}

package confine

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The answer to a question reaches a caller that was sent signals meanwhile.
func TestListenDuringSignals(t *testing.T) {
	const asked, want = unix.SYS_VHANGUP, unix.EXDEV
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offsetNumber},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: asked},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	type listening struct {
		fd, thread int
		err        error
	}
	begun, ended := make(chan listening), make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the filter is the thread's, which ends with the goroutine
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			begun <- listening{err: err}
			return
		}
		fd, err := Listen(filter)
		begun <- listening{fd, unix.Gettid(), err}
		if err != nil {
			return
		}
		_, _, errno := unix.Syscall(asked, 0, 0, 0)
		ended <- errno
	}()
	l := <-begun
	if l.err != nil {
		t.Fatal(l.err)
	}
	defer unix.Close(l.fd)
	request := func(what uintptr, arg unsafe.Pointer) unix.Errno {
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(l.fd), what, uintptr(arg))
		return errno
	}
	const receive, send, valid = 0xc0502100, 0xc0182101, 0x40082102 // seccomp_unotify(2)
	for taken := 0; ; taken++ {
		if taken > 100 {
			t.Fatal("each signal takes the question back")
		}
		var question [80]byte // struct seccomp_notif begins with its number
		if errno := request(receive, unsafe.Pointer(&question[0])); errno != 0 {
			if errno == unix.ENOENT || errno == unix.EINTR {
				continue
			}
			t.Fatal(errno)
		}
		if err := unix.Tgkill(os.Getpid(), l.thread, unix.SIGURG); err != nil { // which the runtime takes, and restarts what it has interrupted
			t.Fatal(err)
		}
		for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end) && request(valid, unsafe.Pointer(&question[0])) == 0; { // until it is taken back, if it is
			runtime.Gosched()
		}
		answer := struct {
			id    uint64
			value int64
			errno int32
			flags uint32
		}{id: *(*uint64)(unsafe.Pointer(&question[0])), errno: -int32(want)}
		if request(send, unsafe.Pointer(&answer)) == 0 {
			break
		}
	}
	if err := <-ended; !errors.Is(err, want) {
		t.Errorf("the call came to %v, want %v", err, want)
	}
}

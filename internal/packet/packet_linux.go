// Package packet sends messages between processes of ours: JSON, one a packet of a SOCK_SEQPACKET socket, with descriptors beside it
// (SCM_RIGHTS).
package packet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"
)

// maxFDs bounds the descriptors beside one message. The kernel's own limit is 253 (SCM_MAX_FD, include/net/scm.h).
const maxFDs = 64

// MaxMessageBytes bounds one message. execve(2) lets arguments and environment have 2 MiB together (a quarter of an 8 MiB
// stack); JSON at worst makes six bytes of one.
const MaxMessageBytes = 12<<20 + 64<<10

// packetBytes is the largest message that goes as a packet: a socket's buffer, 208 KiB by default (net.core.wmem_default),
// must hold it with the kernel's own overhead. A larger one goes as a file beside an empty object.
const packetBytes = 64 << 10

// Send writes v as one packet with fds beside it. It blocks while the peer's queue is full.
func Send(fd int, v any, fds ...int) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	if len(b) > MaxMessageBytes {
		return fmt.Errorf("message of %d bytes is larger than %d", len(b), MaxMessageBytes)
	}
	if len(b) > packetBytes {
		file, err := asFile(b)
		if err != nil {
			return err
		}
		defer unix.Close(file)
		b, fds = []byte(inFile), append(fds[:len(fds):len(fds)], file)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	for {
		err := unix.Sendmsg(fd, b, rights, nil, unix.MSG_NOSIGNAL)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// inFile stands for a message whose bytes are in the last descriptor beside it. No message looks like it: none is null.
const inFile = "null"

func asFile(b []byte) (int, error) {
	fd, err := unix.MemfdCreate("silk-message", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("put message into a file: %w", err)
	}
	for done := 0; done < len(b); {
		n, err := unix.Write(fd, b[done:])
		if err != nil && !errors.Is(err, unix.EINTR) {
			_ = unix.Close(fd)
			return -1, fmt.Errorf("put message into a file: %w", err)
		}
		done += max(n, 0)
	}
	return fd, nil
}

// fromFile reads what asFile wrote.
func fromFile(fd int) ([]byte, error) {
	defer unix.Close(fd)
	var file unix.Stat_t
	if err := unix.Fstat(fd, &file); err != nil {
		return nil, fmt.Errorf("read message from a file: %w", err)
	}
	if file.Size > MaxMessageBytes {
		return nil, fmt.Errorf("message is larger than %d bytes", MaxMessageBytes)
	}
	b := make([]byte, file.Size)
	n, err := unix.Pread(fd, b, 0)
	if err != nil {
		return nil, fmt.Errorf("read message from a file: %w", err)
	}
	return b[:n], nil
}

// Write is [Send] without descriptors, by write(2): a confined sentry's seccomp filter has no sendmsg with our flags.
func Write(fd int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode message: %w", err)
	}
	for {
		_, err := unix.Write(fd, b)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Receive reads one packet into v and returns the descriptors beside it, close-on-exec; the caller closes them. It
// returns [io.EOF] when the peer has closed its end.
func Receive(fd int, v any) (fds []int, err error) {
	b := make([]byte, packetBytes)
	oob := make([]byte, unix.CmsgSpace(4*maxFDs))
	var n, oobn, flags int
	for {
		n, oobn, flags, _, err = unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.ECONNRESET) {
		return nil, io.EOF // the peer died with our message unread
	}
	if err != nil {
		return nil, err
	}
	if fds, err = rights(oob[:oobn]); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			CloseAll(fds)
			fds = nil
		}
	}()
	if n == 0 {
		return fds, io.EOF
	}
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		return fds, errors.New("message was cut: more bytes or descriptors than agreed")
	}
	b = b[:n]
	if string(b) == inFile && len(fds) > 0 {
		var file int
		file, fds = fds[len(fds)-1], fds[:len(fds)-1]
		if b, err = fromFile(file); err != nil {
			return fds, err
		}
	}
	if err := json.Unmarshal(b, v); err != nil {
		return fds, fmt.Errorf("decode message: %w", err)
	}
	return fds, nil
}

// Read is [Receive] without descriptors, by read(2), for a confined sentry.
func Read(fd int, v any) error {
	b := make([]byte, 64<<10) // a Control is small; a longer packet would be cut and fail to decode
	for {
		n, err := unix.Read(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECONNRESET), err == nil && n == 0:
			return io.EOF
		case err != nil:
			return err
		}
		return json.Unmarshal(b[:n], v)
	}
}

func rights(oob []byte) (fds []int, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		f, err := unix.ParseUnixRights(&m)
		if err != nil {
			CloseAll(fds)
			return nil, err
		}
		fds = append(fds, f...)
	}
	return fds, nil
}

// CloseAll closes descriptors, ignoring errors: there is nothing to do about them.
func CloseAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

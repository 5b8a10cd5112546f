package pty

import (
	"errors"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestOpenCarriesBytesAndSize(t *testing.T) {
	main, replica, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer main.Close()
	if err := Resize(main, 132, 43); err != nil {
		t.Fatal(err)
	}
	size, err := unix.IoctlGetWinsize(int(replica.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col != 132 || size.Row != 43 {
		t.Errorf("replica has size %+v, %v", size, err)
	}
	if _, err := replica.WriteString("out\n"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 16)
	n, err := main.Read(buf)
	if err != nil || string(buf[:n]) != "out\r\n" {
		t.Errorf("main read %q, %v", buf[:n], err)
	}
	if _, err := main.WriteString("in\n"); err != nil {
		t.Fatal(err)
	}
	if n, err = replica.Read(buf); err != nil || string(buf[:n]) != "in\n" {
		t.Errorf("replica read %q, %v", buf[:n], err)
	}
	if err := replica.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(main, buf[:4]); err != nil { // the echo of "in\n"
		t.Errorf("echo: %v", err)
	}
	if _, err := main.Read(buf); !errors.Is(err, unix.EIO) {
		t.Errorf("after the replica is closed: %v, want EIO", err)
	}
}

func TestCloseEndsRead(t *testing.T) {
	main, replica, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	defer replica.Close()
	ended := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		_, err := main.Read(make([]byte, 1))
		ended <- err
	}()
	<-started
	if err := main.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want %v", err, os.ErrClosed)
	}
}

package httpapi

import (
	"net"
	"testing"
)

func TestLimit(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Limit(inner, 1)
	dial := func() net.Conn {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	dial()
	dial()
	first, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		second <- err
	}()
	select {
	case err := <-second:
		t.Fatalf("a second connection beside the first: %v", err)
	default:
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	first.Close() // counts once
	if err := <-second; err != nil {
		t.Errorf("after the first has ended: %v", err)
	}
	third := make(chan error, 1)
	held := dial()
	if _, err := l.Accept(); err != nil {
		t.Fatal(err)
	}
	go func() { _, err := l.Accept(); third <- err }()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-third; err == nil {
		t.Error("a closed listener accepted")
	}
	held.Close()
}

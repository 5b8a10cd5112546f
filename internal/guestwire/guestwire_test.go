package guestwire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// pair are two ends that run. What Run of each returned comes when both are closed.
func pair(t *testing.T, onHost, onGuest func(Kind, []byte) error) (host, guest *Conn, ended func() (hostErr, guestErr error)) {
	t.Helper()
	a, b := net.Pipe()
	host, guest = New(a, Host), New(b, Guest)
	hostErr, guestErr := make(chan error, 1), make(chan error, 1)
	go func() { hostErr <- host.Run(onHost) }()
	go func() { guestErr <- guest.Run(onGuest) }()
	return host, guest, func() (error, error) {
		host.Close()
		guest.Close()
		return <-hostErr, <-guestErr
	}
}

func ignore(Kind, []byte) error { return nil }

func TestStreams(t *testing.T) {
	host, guest, ended := pair(t, ignore, ignore)
	defer ended()
	long := strings.Repeat("0123456789", 100_000) // four times a window
	for _, test := range []struct {
		name     string
		from, to *Conn
		stream   Stream
	}{
		{"host to guest", host, guest, Fill},
		{"guest to host", guest, host, Stdout},
		{"guest to host, another one", guest, host, Report},
	} {
		t.Run(test.name, func(t *testing.T) {
			go func() {
				w := test.from.Writer(test.stream)
				io.WriteString(w, long)
				w.Close()
			}()
			got, err := io.ReadAll(test.to.Reader(test.stream))
			if err != nil || string(got) != long {
				t.Errorf("%d bytes arrived, %v; want %d", len(got), err, len(long))
			}
		})
	}
}

// A reader that does not read stops its own stream only.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, guest, ended := pair(t, ignore, ignore)
		defer ended()
		wrote := make(chan int, 1)
		go func() {
			n, _ := guest.Writer(Stdout).Write(make([]byte, 10*Window))
			wrote <- n
		}()
		synctest.Wait()
		if n := host.streams[Stdout].arriving.Len(); n != Window {
			t.Errorf("%d bytes wait, want %d", n, Window)
		}
		go func() {
			w := guest.Writer(Stderr)
			io.WriteString(w, "said")
			w.Close()
		}()
		if got, err := io.ReadAll(host.Reader(Stderr)); err != nil || string(got) != "said" {
			t.Errorf("beside it arrived %q, %v", got, err)
		}
		if n, err := io.ReadFull(host.Reader(Stdout), make([]byte, 10*Window)); err != nil {
			t.Errorf("%d bytes arrived, %v", n, err)
		}
		if n := <-wrote; n != 10*Window {
			t.Errorf("%d bytes were written", n)
		}
	})
}

func TestMessages(t *testing.T) {
	said := make(chan string, 2)
	host, guest, ended := pair(t, func(k Kind, b []byte) error {
		said <- "guest " + string(b)
		return nil
	}, func(k Kind, b []byte) error {
		said <- "host " + string(b)
		return nil
	})
	defer ended()
	if err := errors.Join(host.Send(Stop, []byte("x")), guest.Send(Hello, []byte("y"))); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{<-said: true, <-said: true}
	if !got["guest y"] || !got["host x"] {
		t.Errorf("heard %v", got)
	}
}

// What is under way when the peer goes is read, and then there is an error, never an end.
func TestPeerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host, guest, ended := pair(t, ignore, ignore)
		io.WriteString(guest.Writer(Stdout), "part")
		synctest.Wait()
		guest.Close()
		got, err := io.ReadAll(host.Reader(Stdout))
		if string(got) != "part" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %q, %v", got, err)
		}
		if _, err := host.Writer(Stdin).Write(make([]byte, 2*Window)); err == nil {
			t.Error("a peer that is gone is written to")
		}
		ended()
	})
}

func frame(kind Kind, parts ...[]byte) []byte { return appendFrame(nil, kind, parts...) }

func TestEnemies(t *testing.T) {
	window := make([]byte, MaxPayload-1)
	var flood []byte
	for range Window/len(window) + 1 {
		flood = append(flood, frame(data, []byte{byte(Stdout)}, window)...)
	}
	for _, test := range []struct {
		name string
		sent []byte
		want string
	}{
		{"a frame that is too long", binary.BigEndian.AppendUint32([]byte{byte(Hello)}, MaxPayload+1), "a frame of 65537 bytes"},
		{"a kind that nobody knows", frame(200), "kind 200"},
		{"the host's word from the guest", frame(Bye), "kind 10"},
		{"no stream", frame(data), "no stream"},
		{"a stream that nobody knows", frame(data, []byte{byte(streams), 1}), "no stream"},
		{"the host's stream", frame(data, []byte{byte(Stdin), 1}), "not the peer's"},
		{"more than the window", flood, "under way"},
		{"after the end", append(frame(data, []byte{byte(Stdout)}), frame(data, []byte{byte(Stdout), 1})...), "after its end"},
		{"a grant of what was not sent", frame(credit, []byte{byte(Stdin), 0, 0, 0, 1}), "a grant of 1 bytes"},
		{"a grant of another size", frame(credit, []byte{byte(Stdin), 1}), "a grant about"},
		{"a grant on its own stream", frame(credit, []byte{byte(Stdout), 0, 0, 0, 1}), "a grant about"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := New(nothing{bytes.NewReader(test.sent)}, Host)
			err := c.Run(ignore)
			if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

// nothing takes what is written to it and reads what it is given.
type nothing struct{ io.Reader }

func (nothing) Write(b []byte) (int, error) { return len(b), nil }
func (nothing) Close() error                { return nil }

// FuzzConn has an enemy on either side: it ends with an error, in bounded memory, and readers end with it.
func FuzzConn(f *testing.F) {
	f.Add(false, append(frame(Hello, []byte("{}")), frame(data, []byte{byte(Stdout), 'x'})...))
	f.Add(false, frame(credit, []byte{byte(Stdin), 0, 0, 0, 1}))
	f.Add(true, append(frame(data, []byte{byte(Plan), '{', '}'}), frame(data, []byte{byte(Plan)})...))
	f.Add(true, frame(Stop))
	f.Fuzz(func(t *testing.T, guest bool, sent []byte) {
		side := Host
		if guest {
			side = Guest
		}
		c := New(nothing{bytes.NewReader(sent)}, side)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for s := range streams {
				if s.sender() != side {
					io.Copy(io.Discard, c.Reader(s))
				}
			}
		}()
		if err := c.Run(ignore); err == nil {
			t.Error("it ended without an error")
		}
		c.mu.Lock()
		for _, s := range c.streams {
			if s.arriving.Len() > Window || s.credit > Window || s.credit < 0 {
				t.Errorf("stream %d has %d bytes and may send %d", s.id, s.arriving.Len(), s.credit)
			}
		}
		c.mu.Unlock()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("a reader waits for nobody")
		}
	})
}

// One frame's cost is that of its bytes, which are copied twice.
func BenchmarkStdout(b *testing.B) {
	r, w := net.Pipe()
	host, guest := New(r, Host), New(w, Guest)
	go host.Run(ignore)
	go guest.Run(ignore)
	defer guest.Close()
	defer host.Close()
	piece := make([]byte, 32<<10)
	b.SetBytes(int64(len(piece)))
	go func() {
		w := guest.Writer(Stdout)
		for {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}()
	for b.Loop() {
		if _, err := io.ReadFull(host.Reader(Stdout), piece); err != nil {
			break
		}
	}
}

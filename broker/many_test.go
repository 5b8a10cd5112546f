package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/silk-sandbox/silk/api"
)

func many(t *testing.T, b *Broker) *Many {
	t.Helper()
	m := b.ViewMany(t.Context())
	t.Cleanup(m.Close)
	return m
}

func next(t *testing.T, m *Many) api.Frame {
	t.Helper()
	frame, err := m.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, frame)
}

// A run that prints without end gets one frame in turn with those that print one line.
func TestManyIsFair(t *testing.T) {
	b := newBroker(t, nil)
	m := many(t, b)
	loud := open(t, b, "loud", Limits{})
	for i := range 500 {
		loud.Output("stdout", int64(2*i), uint64(i+1), 0, []byte("x\n"))
	}
	if err := m.Add("loud", Cursor{}); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		next(t, m)
		s := open(t, b, fmt.Sprint("quiet", i), Limits{})
		s.Output("stdout", 0, 1, 0, []byte("y\n"))
		s.End(api.Outcome{})
		if err := m.Add(s.Run(), Cursor{}); err != nil {
			t.Fatal(err)
		}
	}
	ended := 0
	for i := 1; ended < 5; i++ {
		f := next(t, m)
		if f.Type == api.FrameExit {
			ended++
		}
		if i > 5*3+8 {
			t.Fatalf("after %d frames %d of 5 short runs have ended", i, ended)
		}
	}
}

// Runs come and go while somebody waits.
func TestManyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		m := many(t, b)
		frames := make(chan api.Frame, 100)
		go func() {
			for {
				frame, err := m.Next(t.Context())
				if errors.Is(err, ErrClosed) {
					close(frames)
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				frames <- decode(t, frame)
			}
		}()
		got := func() (s []string) {
			synctest.Wait()
			for len(frames) > 0 {
				f := <-frames
				s = append(s, f.Run+" "+string(f.Type))
			}
			return s
		}
		expect := func(want ...string) {
			t.Helper()
			if got := got(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		add := func(run string, cursor Cursor, want error) {
			t.Helper()
			if err := m.Add(run, cursor); !errors.Is(err, want) {
				t.Errorf("add %s: %v, want %v", run, err, want)
			}
		}
		expect()
		add("a", Cursor{}, ErrUnknownRun)
		a, c := open(t, b, "a", Limits{}), open(t, b, "c", Limits{})
		add("a", Cursor{Stdout: 1}, ErrCursor)
		add("a", Cursor{}, nil)
		expect("a hello")
		add("a", Cursor{}, ErrMany)
		add("c", Cursor{}, nil)
		expect("c hello")
		c.Output("stdout", 0, 1, 0, []byte("1\n"))
		expect("c output")
		a.Output("stdout", 0, 1, 0, []byte("1\n"))
		c.Output("stdout", 2, 2, 0, []byte("2\n"))
		expect("a output", "c output")
		m.Drop("c")
		m.Drop("c")
		c.Output("stdout", 4, 3, 0, []byte("3\n"))
		expect()
		add("c", Cursor{Stdout: 4}, nil)
		expect("c hello", "c output")
		a.End(api.Outcome{})
		expect("a exit")
		add("a", Cursor{Stdout: 2}, nil) // the client was not sure
		expect("a hello", "a exit")
		c.Output("stdout", 6, 4, 0, []byte("4"))
		<-time.After(partWait)
		expect("c output")
		m.Close()
		synctest.Wait()
		if _, open := <-frames; open {
			t.Error("Next goes on after Close")
		}
		add("c", Cursor{}, ErrClosed)
		if got := b.Stats().Viewers; got != 0 {
			t.Errorf("%d viewers are left", got)
		}
	})
}

func TestManyIsBounded(t *testing.T) {
	b := newBroker(t, nil)
	m := many(t, b)
	for i := range maxMany + 1 {
		open(t, b, fmt.Sprint("r", i), Limits{})
		if err := m.Add(fmt.Sprint("r", i), Cursor{}); errors.Is(err, ErrMany) != (i == maxMany) {
			t.Fatalf("run %d: %v", i, err)
		}
	}
	m.Drop("r0")
	if err := m.Add(fmt.Sprint("r", maxMany), Cursor{}); err != nil {
		t.Errorf("after one was dropped: %v", err)
	}
}

// The end of the context releases what was attached, and a wait that is cut short changes nothing.
func TestContexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{})
		ctx, cancel := context.WithCancel(t.Context())
		v, err := b.View(ctx, "r", Cursor{})
		if err != nil {
			t.Fatal(err)
		}
		m := b.ViewMany(ctx)
		if err := m.Add("r", Cursor{}); err != nil {
			t.Fatal(err)
		}
		for i, read := range []func(context.Context) ([]byte, error){v.Next, m.Next} {
			for range i + 1 { // hello, and what the one before was for
				if _, err := read(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for range 3 { // as one that sends pings
				short, stop := context.WithTimeout(t.Context(), time.Second)
				if _, err := read(short); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				stop()
			}
			if got := s.waiting.count.Load(); got != 1 {
				t.Errorf("after some waits of one viewer %d are waiting", got)
			}
			s.Output("stdout", int64(2*i), uint64(i+1), 0, []byte("x\n"))
			if frame, err := read(t.Context()); err != nil || !bytes.Contains(frame, []byte(`"output"`)) {
				t.Errorf("after a wait: %s, %v", frame, err)
			}
		}
		ended := make(chan error)
		go func() {
			for {
				if _, err := v.Next(t.Context()); err != nil {
					ended <- err
					return
				}
			}
		}()
		synctest.Wait()
		cancel()
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("one that waited got %v, want ErrClosed", err)
		}
		synctest.Wait()
		if got := b.Stats().Viewers; got != 0 || s.waiting.count.Load() != 0 {
			t.Errorf("%d viewers are left, %d wait", got, s.waiting.count.Load())
		}
		for _, read := range []func(context.Context) ([]byte, error){v.Next, m.Next} {
			if _, err := read(t.Context()); !errors.Is(err, ErrClosed) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
	})
}

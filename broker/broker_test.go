package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
)

// kinds are the types of frames, and what they hold that is not output.
func kinds(frames []api.Frame) []string {
	var s []string
	for _, f := range frames {
		words := []string{string(f.Type)}
		for _, w := range []string{f.State, f.Rule, f.Step, f.Path, f.Host} {
			if w != "" {
				words = append(words, w)
			}
		}
		if f.Type == api.FrameOutput {
			p, _ := f.Bytes()
			words = append(words, f.Channel, string(p))
		}
		s = append(s, strings.Join(words, " "))
	}
	return s
}

func TestFramesOfARun(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r1", Limits{})
	early := view(t, b, "r1", Cursor{})
	s.Publish(api.Frame{Type: api.FrameApproval, State: "pending"})
	pending := view(t, b, "r1", Cursor{Tail: true})
	s.Publish(api.Frame{Type: api.FrameApproval, State: "granted"})
	s.Publish(api.Frame{Type: api.FrameQueued, Position: 2})
	s.Publish(api.Frame{Type: api.FrameQueued, Position: 1})
	s.Describe("lab:text", "gvisor")
	s.Publish(api.Frame{Type: api.FrameProgress, Step: "image"})
	s.Publish(api.Frame{Type: api.FrameStarted})
	s.Output("stdout", 0, 1, time.Millisecond, []byte("one\n"))
	s.Output("stderr", 0, 2, 2*time.Millisecond, []byte("unfinished"))
	s.Publish(api.Frame{Type: api.FrameEgress, Host: "example.org"})
	s.Publish(api.Frame{Type: api.FrameViolation, Rule: "mount"})
	s.Publish(api.Frame{Type: api.FrameDisplay, Path: "a.png"})
	late := view(t, b, "r1", Cursor{})
	s.Output("stdout", 4, 3, 3*time.Millisecond, []byte("two\n"))
	s.End(api.Outcome{Kind: "violated", Run: "r1"})
	s.End(api.Outcome{Kind: "ok"})
	s.Output("stdout", 8, 4, 4*time.Millisecond, []byte("three\n"))
	s.Publish(api.Frame{Type: api.FrameViolation, Rule: "late"})
	after := view(t, b, "r1", Cursor{Stdout: 4, Stderr: 10})

	end := []string{"output stdout two\n", "exit"}
	for _, test := range []struct {
		name string
		v    *Viewer
		want []string
	}{
		{"one that was there from the begin has all in order", early, append([]string{
			"hello queued", "approval pending", "approval granted", "queued", "queued", "progress image", "started", "output stdout one\n",
			"output stderr unfinished", "egress example.org", "violation mount", "display a.png",
		}, end...)},
		{"one that came while it was pending", pending, append([]string{
			"hello pending", "approval pending", "approval granted", "queued", "queued", "progress image", "started", "output stdout one\n",
			"output stderr unfinished", "egress example.org", "violation mount", "display a.png",
		}, end...)},
		{"a late one has first how the run stands, then all output", late, append([]string{
			"hello running", "approval granted", "started", "violation mount", "display a.png", "output stdout one\n", "output stderr unfinished",
		}, end...)},
		{"one that resumes after the end", after, append([]string{
			"hello ended", "approval granted", "started", "violation mount", "display a.png",
		}, end...)},
	} {
		t.Run(test.name, func(t *testing.T) {
			frames := all(t.Context(), t, test.v.Next)
			if diff := cmp.Diff(test.want, kinds(frames)); diff != "" {
				t.Errorf("want -, got +:\n%s", diff)
			}
			for _, f := range frames {
				if f.Run != "r1" {
					t.Errorf("%s is of run %q", f.Type, f.Run)
				}
			}
			if o := frames[len(frames)-1].Outcome; o == nil || o.Kind != "violated" {
				t.Errorf("outcome is %+v", o)
			}
		})
	}
	hello := drainHello(t, view(t, b, "r1", Cursor{Stdout: 4, Stderr: 10}))
	want := api.Frame{
		Type: api.FrameHello, Run: "r1", State: "ended", Profile: "lab:text", Driver: "gvisor", TailFrom: &api.Tail{Stdout: 4, Stderr: 10},
	}
	if diff := cmp.Diff(want, hello); diff != "" {
		t.Errorf("hello: want -, got +:\n%s", diff)
	}
}

func drainHello(t *testing.T, v *Viewer) api.Frame {
	t.Helper()
	frame, err := ready(v)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, frame)
}

// Only the broker says how a stream begins, ends and what is lost.
func TestPublishOfWhatIsTheBrokers(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{})
	v := view(t, b, "r", Cursor{})
	for _, kind := range []api.FrameType{api.FrameHello, api.FrameOutput, api.FrameGap, api.FrameExit, api.FramePing, "other"} {
		s.Publish(api.Frame{Type: kind})
	}
	s.Output("stdin", 0, 1, 0, []byte("x\n"))
	if frames, err := drain(t, v); !errors.Is(err, errWaits) || len(frames) != 1 {
		t.Errorf("got %q, %v, want hello alone", kinds(frames), err)
	}
}

func TestCursor(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{})
	s.w.armed = true // so that what is held back stays so
	s.Output("stdout", 0, 1, 0, []byte("12345\nheld"))
	for _, test := range []struct {
		name   string
		run    string
		cursor Cursor
		want   error
	}{
		{"at the end", "r", Cursor{Stdout: 6}, nil},
		{"in what is held back", "r", Cursor{Stdout: 7}, ErrCursor},
		{"beyond the end of the other channel", "r", Cursor{Stdout: 6, Stderr: 1}, ErrCursor},
		{"before the begin", "r", Cursor{Stderr: -1}, ErrCursor},
		{"offsets do not count with tail", "r", Cursor{Stdout: 99, Tail: true}, nil},
		{"no such run", "s", Cursor{}, ErrUnknownRun},
		{"no id", "../r", Cursor{}, ErrUnknownRun},
	} {
		t.Run(test.name, func(t *testing.T) {
			v, err := b.View(t.Context(), test.run, test.cursor)
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if v != nil {
				v.Close()
			}
		})
	}
}

func TestOpen(t *testing.T) {
	b := newBroker(t, nil)
	open(t, b, "live", Limits{})
	if err := os.WriteFile(LogFile(b.config.Dir, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		run  string
		want error
	}{
		{"a run that is live", "live", ErrOpen},
		{"a run whose log was left by a crash", "left", ErrOpen},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := b.Open(test.run, Limits{}); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	for _, run := range []string{"", "a/b", "..", "a b", "é", `"`, strings.Repeat("x", 65)} {
		if _, err := b.Open(run, Limits{}); err == nil {
			t.Errorf("%q is taken for the id of a run", run)
		}
	}
	if _, err := New(Config{Dir: "relative"}); err == nil {
		t.Error("a relative directory is taken")
	}
}

// A run that has ended is there for a while, its viewers to its end.
func TestEndedRunsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{})
		s.Output("stdout", 0, 1, 0, []byte("x\n"))
		s.Output("stdout", 2, 1, 0, bytes.Repeat([]byte("y"), defaultRingBytes))
		s.End(api.Outcome{})
		<-time.After(defaultKeep - time.Second)
		v := view(t, b, "r", Cursor{})
		<-time.After(2 * time.Second)
		if _, err := b.View(t.Context(), "r", Cursor{}); !errors.Is(err, ErrUnknownRun) {
			t.Errorf("after a minute: %v", err)
		}
		o := collect(t, all(t.Context(), t, v.Next))
		if len(o.data[stdout]) != 2+defaultRingBytes || o.lost[stdout] > 0 {
			t.Errorf("an old viewer has got %d bytes and lost %d", len(o.data[stdout]), o.lost[stdout])
		}
		if s.log.file == nil {
			t.Error("the log was closed while somebody could read it")
		}
		v.Close()
		if s.log.file != nil {
			t.Error("the log is open, and nobody can read it")
		}
	})
}

// A short run holds no descriptor once it has ended.
func TestEndOfAShortRunClosesItsLog(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{})
	s.Output("stdout", 0, 1, 0, []byte("x\n"))
	s.End(api.Outcome{})
	if s.log.file != nil {
		t.Error("the log is open")
	}
	collect(t, all(t.Context(), t, view(t, b, "r", Cursor{}).Next)).check(t, stdout, []byte("x\n"))
}

func TestEndedRunsAreBounded(t *testing.T) {
	b := newBroker(t, func(c *Config) { c.KeepBytes = 100 << 10 })
	for _, run := range []string{"a", "b", "c"} {
		s := open(t, b, run, Limits{})
		s.Output("stdout", 0, 1, 0, bytes.Repeat([]byte("x"), 40<<10))
		s.End(api.Outcome{})
	}
	for run, want := range map[string]error{"a": ErrUnknownRun, "b": nil, "c": nil} {
		if _, err := b.View(t.Context(), run, Cursor{}); !errors.Is(err, want) {
			t.Errorf("run %s: %v, want %v", run, err, want)
		}
	}
	if got := b.Stats().Streams; got != 2 {
		t.Errorf("%d streams, want 2", got)
	}
	b.config.KeepBytes = defaultKeepBytes
	for i := range maxEnded + 100 {
		open(t, b, fmt.Sprint("r", i), Limits{}).End(api.Outcome{})
	}
	if got := b.Stats().Streams; got != maxEnded {
		t.Errorf("%d streams, want %d", got, maxEnded)
	}
}

// A stream that is cut off by the end of the server has no exit frame, and does not look like one that ended.
func TestCloseIsNoEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{})
		s.Output("stdout", 0, 1, 0, []byte("x"))
		v := view(t, b, "r", Cursor{})
		m := b.ViewMany(t.Context())
		defer m.Close()
		if err := m.Add("r", Cursor{}); err != nil {
			t.Fatal(err)
		}
		got := make(chan error, 2)
		for _, next := range []func(context.Context) ([]byte, error){v.Next, m.Next} {
			go func() {
				for {
					if _, err := next(t.Context()); err != nil {
						got <- err
						return
					}
				}
			}()
		}
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-got; !errors.Is(err, ErrClosed) || errors.Is(err, io.EOF) {
				t.Errorf("got %v, want ErrClosed", err)
			}
		}
		s.Output("stdout", 1, 2, 0, []byte("y\n"))
		s.End(api.Outcome{})
		if _, err := b.View(t.Context(), "r", Cursor{}); !errors.Is(err, ErrClosed) {
			t.Errorf("view: %v", err)
		}
		if _, err := b.Open("s", Limits{}); !errors.Is(err, ErrClosed) {
			t.Errorf("open: %v", err)
		}
	})
}

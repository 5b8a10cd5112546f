package broker

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/silk-sandbox/silk/api"
)

func follower(t testing.TB, b *Broker, cursor Cursor, key string) *Viewer {
	t.Helper()
	v, err := b.Follow(t.Context(), "r", cursor, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.Close)
	return v
}

// greeting reads hello.
func greeting(t *testing.T, v *Viewer) api.Frame {
	t.Helper()
	frame, err := ready(v)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, frame)
}

// flood writes n bytes to stdout and ends the run. done is closed then.
func flood(s *Stream, n int) (sum [sha256.Size]byte, done chan struct{}) {
	all := make([]byte, n)
	source := rand.NewChaCha8([32]byte{1})
	_, _ = source.Read(all) // never fails
	done = make(chan struct{})
	go func() {
		defer close(done)
		for at := 0; at < n; at += 100_000 {
			s.Output("stdout", int64(at), uint64(at+1), 0, all[at:min(n, at+100_000)])
		}
		s.End(api.Outcome{Kind: "ok"})
	}()
	return sha256.Sum256(all), done
}

// TestFollowerLosesNothing: a run prints thirty times what log and memory hold; the follower is slow, cut again and again, and
// comes again with what it had acknowledged or more. A viewer beside it gets gaps.
func TestFollowerLosesNothing(t *testing.T) {
	b := newBroker(t, nil)
	s := open(t, b, "r", Limits{LogBytes: 1 << 20})
	s.Expect("k")
	const size = 100 << 20
	sum, done := flood(s, size)
	hash, at, chance := sha256.New(), int64(0), rand.New(rand.NewPCG(1, 2))
	for ended := false; !ended; {
		v := follower(t, b, Cursor{Stdout: at}, "k")
		if hello := decode(t, must(v.Next(t.Context()))); !hello.Followed || hello.TailFrom.Stdout != at {
			t.Fatalf("hello %+v at %d", hello, at)
		}
		for range 50 + chance.IntN(2000) {
			frame, err := v.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f := decode(t, frame)
			if ended = f.Type == api.FrameExit; ended {
				break
			}
			p, err := f.Bytes()
			if f.Type != api.FrameOutput || *f.Offset != at || err != nil {
				t.Fatalf("at %d comes %s %v, %v", at, f.Type, f.Offset, err)
			}
			hash.Write(p)
			if at += int64(len(p)); chance.IntN(3) == 0 {
				v.Have(at, 0)
			}
		}
		v.Close()
	}
	<-done
	if [sha256.Size]byte(hash.Sum(nil)) != sum || at != size {
		t.Errorf("%d bytes with another hash", at)
	}
	if held := b.Stats().Held; held == 0 {
		t.Error("the program never had to wait")
	}
}

func must(frame []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return frame
}

// TestFollowerThatStops: how long a program is held up, and by whom.
func TestFollowerThatStops(t *testing.T) {
	const size = 8 << 20
	for _, test := range []struct {
		name string
		does func(t *testing.T, b *Broker, s *Stream)
		want time.Duration // that the program is held up
	}{
		{"it was announced and never comes", func(_ *testing.T, _ *Broker, s *Stream) { s.Expect("k") }, defaultFollowAway},
		{"it takes nothing", func(t *testing.T, b *Broker, s *Stream) { follower(t, b, Cursor{}, "k") }, defaultFollowIdle},
		{"it reads and acknowledges nothing", func(t *testing.T, b *Broker, s *Stream) { go discard(t.Context(), follower(t, b, Cursor{}, "k")) }, defaultFollowIdle},
		{"it dies after a second", func(t *testing.T, b *Broker, s *Stream) {
			time.AfterFunc(time.Second, follower(t, b, Cursor{}, "k").Close)
		}, time.Second + defaultFollowAway},
		{"it says the same again and again", func(t *testing.T, b *Broker, s *Stream) {
			v := follower(t, b, Cursor{}, "k")
			for i := range 100 {
				time.AfterFunc(time.Duration(i)*time.Second, func() { v.Have(0, 0); v.Have(1<<40, -1) })
			}
		}, defaultFollowIdle},
		{"it takes a little each 29 s, three times", func(t *testing.T, b *Broker, s *Stream) {
			v := follower(t, b, Cursor{}, "k")
			for i := range int64(3) {
				time.AfterFunc(time.Duration(i+1)*29*time.Second, func() { v.Have(i+1, 0) })
			}
		}, 3*29*time.Second + defaultFollowIdle},
		{"the program is gone after five seconds", func(t *testing.T, b *Broker, s *Stream) {
			follower(t, b, Cursor{}, "k")
			time.AfterFunc(5*time.Second, s.ProgramGone)
		}, 5 * time.Second},
		{"the server stops after five seconds", func(t *testing.T, b *Broker, s *Stream) {
			follower(t, b, Cursor{}, "k")
			time.AfterFunc(5*time.Second, func() { _ = b.Close() })
		}, 5 * time.Second},
		{"nobody follows", func(t *testing.T, b *Broker, s *Stream) { follower(t, b, Cursor{}, "") }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBroker(t, func(c *Config) { c.Keep = -1 })
				s := open(t, b, "r", Limits{LogBytes: 1 << 20})
				test.does(t, b, s)
				began := time.Now()
				_, done := flood(s, size)
				<-done
				if got := time.Since(began); got != test.want {
					t.Errorf("held up for %v, want %v", got, test.want)
				}
			})
		})
	}
}

func discard(ctx context.Context, v *Viewer) {
	for {
		if _, err := v.Next(ctx); err != nil {
			return
		}
	}
}

// TestFollowerThatStoppedGetsGaps: and is not waited for again, whatever key it shows.
func TestFollowerThatStoppedGetsGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{LogBytes: 1 << 20})
		v := follower(t, b, Cursor{}, "k")
		_, done := flood(s, 8<<20)
		<-done
		frames, err := drain(t, v)
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if out := collect(t, frames); out.lost[stdout] == 0 || out.to[stdout] != 8<<20 {
			t.Errorf("%d bytes lost of %d", out.lost[stdout], out.to[stdout])
		}
		for _, key := range []string{"k", "other"} {
			if greeting(t, follower(t, b, Cursor{}, key)).Followed {
				t.Errorf("%s follows", key)
			}
		}
		s.Expect("k")
		if greeting(t, follower(t, b, Cursor{}, "k")).Followed {
			t.Error("who was announced again follows")
		}
	})
}

// TestTwoFollowers: the first one has the place; another connection of its own takes it over, and that of another does not.
func TestTwoFollowers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{LogBytes: 1 << 20})
		s.Expect("k")
		s.Expect("other")
		other := follower(t, b, Cursor{}, "other")
		first := follower(t, b, Cursor{}, "k")
		again := follower(t, b, Cursor{}, "k")
		if a, b, c := greeting(t, other).Followed, greeting(t, first).Followed, greeting(t, again).Followed; a || !b || !c {
			t.Errorf("followed %t, %t and %t", a, b, c)
		}
		_, done := flood(s, 3<<20)
		synctest.Wait()
		for _, v := range []*Viewer{other, first} { // are not asked any more
			v.Have(2<<20, 0) // with which it would go on to its end
			v.Close()
		}
		synctest.Wait()
		if isClosed(done) {
			t.Fatal("others than the follower let the program go on")
		}
		for {
			frame, err := again.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if f := decode(t, frame); f.Type == api.FrameGap {
				t.Fatalf("a gap: %+v", f)
			}
			again.Have(again.Cursor().Stdout, 0)
		}
		<-done
	})
}

func isClosed(done chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// TestFollowerAfterTheEnd: a run of which a follower still reads is kept longer than others.
func TestFollowerAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{LogBytes: 4 << 20})
		v := follower(t, b, Cursor{}, "k")
		_, done := flood(s, 3<<20)
		<-done
		for i := range int64(6) {
			<-time.After(20 * time.Second)
			v.Have(i+1, 0)
		}
		v.Close()
		<-time.After(5 * time.Second)
		v = follower(t, b, Cursor{Stdout: 6}, "k")
		frames, err := drain(t, v)
		if out := collect(t, frames); !errors.Is(err, io.EOF) || out.lost[stdout] != 0 || out.to[stdout] != 3<<20 {
			t.Errorf("after two minutes: %d lost, %d, %v", out.lost[stdout], out.to[stdout], err)
		}
		v.Have(3<<20, 0)
		<-time.After(2 * time.Minute)
		if _, err := b.View(t.Context(), "r", Cursor{}); !errors.Is(err, ErrUnknownRun) {
			t.Errorf("long after all was read: %v", err)
		}
	})
}

// TestFollowerAndTheRest: what a program leaves in its pipes is kept for the follower when nobody may be held up any more.
func TestFollowerAndTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		s := open(t, b, "r", Limits{LogBytes: 1 << 10})
		v := follower(t, b, Cursor{}, "k")
		_, done := flood(s, 6<<20)
		synctest.Wait()
		if isClosed(done) {
			t.Fatal("the program did not wait")
		}
		s.ProgramGone()
		<-done
		frames, err := drain(t, v)
		if out := collect(t, frames); !errors.Is(err, io.EOF) || out.lost[stdout] != 0 || out.to[stdout] != 6<<20 {
			t.Errorf("%d lost, %d, %v", out.lost[stdout], out.to[stdout], err)
		}
	})
}

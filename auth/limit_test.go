package auth

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// clock is one that stands until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.UnixMilli(1_780_000_000_000)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestLimiter(t *testing.T) {
	c := newClock()
	l := NewLimiter(LimiterConfig{Every: time.Second, Burst: 3, Clock: c.Now})
	for i := range 3 {
		if ok, wait := l.Allow("a"); !ok || wait != 0 {
			t.Fatalf("number %d of the burst: %t, %s", i, ok, wait)
		}
	}
	for range 2 { // what is refused does not count
		if ok, wait := l.Allow("a"); ok || wait != time.Second {
			t.Fatalf("beyond the burst: %t, %s", ok, wait)
		}
	}
	if ok, _ := l.Allow("b"); !ok {
		t.Error("another key waits for the first")
	}
	c.move(999 * time.Millisecond)
	if ok, wait := l.Allow("a"); ok || wait != time.Millisecond {
		t.Errorf("a moment too early: %t, %s", ok, wait)
	}
	c.move(time.Millisecond)
	if ok, _ := l.Allow("a"); !ok {
		t.Error("not allowed after what retryAfter said")
	}
	if ok, _ := l.Allow("a"); ok {
		t.Error("one second makes room for two")
	}
	c.move(time.Hour)
	for i := range 4 {
		if ok, _ := l.Allow("a"); ok != (i < 3) {
			t.Errorf("number %d after a long pause: %t", i, ok)
		}
	}
}

func TestPeekCountsNothing(t *testing.T) {
	c := newClock()
	l := NewLimiter(LimiterConfig{Every: time.Second, Clock: c.Now})
	for range 5 {
		if ok, wait := l.Peek("a"); !ok || wait != 0 {
			t.Fatalf("%t, %s", ok, wait)
		}
	}
	l.Allow("a")
	if ok, wait := l.Peek("a"); ok || wait != time.Second {
		t.Errorf("after the only one: %t, %s", ok, wait)
	}
}

func TestLimiterIsBounded(t *testing.T) {
	c := newClock()
	l := NewLimiter(LimiterConfig{Every: time.Second, Burst: 2, MaxKeys: 10, Clock: c.Now})
	l.Allow("known")
	through := 0
	for i := range 1000 {
		if ok, _ := l.Allow(fmt.Sprint("new ", i)); ok {
			through++
		}
	}
	if len(l.free) > 10 {
		t.Errorf("%d keys are kept", len(l.free))
	}
	if want := 9 + 2; through != want {
		t.Errorf("%d of the new ones got through, want %d: those that fit, and a burst of all others together", through, want)
	}
	if ok, _ := l.Allow("known"); !ok {
		t.Error("one that is known waits because of those that are new")
	}
	if ok, wait := l.Peek("yet another"); ok || wait <= 0 {
		t.Errorf("a new one gets through: %t, %s", ok, wait)
	}
	c.move(2 * time.Second) // all are idle now, and forgotten
	for i := range 10 {
		for n := range 3 {
			if ok, _ := l.Allow(fmt.Sprint("later ", i)); ok != (n < 2) {
				t.Errorf("key %d, number %d: %t", i, n, ok)
			}
		}
	}
}

func TestLimiterWhenTheClockIsSetBack(t *testing.T) {
	c := newClock()
	l := NewLimiter(LimiterConfig{Every: time.Second, Burst: 3, Clock: c.Now})
	l.Allow("a")
	c.move(-24 * time.Hour)
	if ok, wait := l.Allow("a"); ok || wait != time.Second {
		t.Errorf("%t, %s; want a wait for one", ok, wait)
	}
	c.move(time.Second)
	if ok, wait := l.Allow("a"); ok && wait > 0 {
		t.Errorf("%t, %s", ok, wait)
	}
}

func TestNewLimiterPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a limiter that limits nothing is made")
		}
	}()
	NewLimiter(LimiterConfig{})
}

// The limiter is compared with a bucket that is filled as one thinks of it.
func TestLimiterIsATokenBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		burst := rapid.IntRange(1, 5).Draw(t, "burst")
		c := newClock()
		l := NewLimiter(LimiterConfig{Every: time.Second, Burst: burst, MaxKeys: 1000, Clock: c.Now})
		type bucket struct {
			ms int // 1000 are one
			at time.Time
		}
		buckets := map[string]*bucket{}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c.move(time.Duration(rapid.IntRange(0, 1500).Draw(t, "pause")) * time.Millisecond)
			key := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")
			b := buckets[key]
			if b == nil {
				b = &bucket{1000 * burst, c.now}
				buckets[key] = b
			}
			b.ms, b.at = min(1000*burst, b.ms+int(c.now.Sub(b.at).Milliseconds())), c.now
			ok, wait := l.Allow(key)
			if want := b.ms >= 1000; ok != want {
				t.Fatalf("%t, want %t with %d in the bucket", ok, want, b.ms)
			}
			if ok {
				b.ms -= 1000
			} else if want := time.Duration(1000-b.ms) * time.Millisecond; wait != want {
				t.Fatalf("wait %s, want %s", wait, want)
			}
		}
	})
}

func TestAddressKey(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:4711": "192.0.2.1/32", "192.0.2.1": "192.0.2.1/32", "[::ffff:192.0.2.1]:80": "192.0.2.1/32",
		"[2001:db8:1:2:3:4:5:6]:80": "2001:db8:1:2::/64", "2001:db8:1:2:ffff::1": "2001:db8:1:2::/64", "[fe80::1%eth0]:80": "fe80::/64",
		"[::1]:80": "::/64", "@": "other", "": "other", "localhost:80": "other",
	} {
		if got := AddressKey(remote); got != want {
			t.Errorf("AddressKey(%q) = %q, want %q", remote, got, want)
		}
	}
}

func BenchmarkLimiter(b *testing.B) {
	l := NewLimiter(LimiterConfig{Every: time.Microsecond, Burst: 100})
	for b.Loop() {
		l.Allow("192.0.2.1/32")
	}
}

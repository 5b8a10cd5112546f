package auth

import (
	"net/netip"
	"sync"
	"time"
)

// LimiterConfig says how often is too often. Every is required.
type LimiterConfig struct {
	Every   time.Duration // one more each
	Burst   int           // so many at once after a pause; 0: 1
	MaxKeys int           // keys that are counted apart; 0: 16384, about 2 MiB
	Clock   func() time.Time
}

// Limiter is a token bucket for each key. Safe for concurrent use; its memory is bounded: keys beyond
// [LimiterConfig.MaxKeys] that have not been idle share one bucket, so whoever comes with ever new keys slows down others who are new,
// never those who are known, and is never let through.
//
// It is the generic cell rate algorithm, the same as a token bucket but with one moment for each key (the "theoretical
// arrival time" of ITU-T I.371): a key whose moment has passed is the same as one that never came, so what is
// forgotten to save memory changes no answer. golang.org/x/time/rate would need four times the memory and a mutex
// for each key, and has no such rule.
type Limiter struct {
	cfg LimiterConfig

	mu     sync.Mutex
	free   map[string]time.Time // when the bucket of a key will be full again
	shared time.Time            // the same for all those that do not fit
	swept  time.Time
}

// NewLimiter makes a limiter. It panics if cfg.Every is not above zero: that would let everything through.
func NewLimiter(cfg LimiterConfig) *Limiter {
	if cfg.Every <= 0 {
		panic("auth: LimiterConfig.Every is not above zero")
	}
	cfg.Burst = max(cfg.Burst, 1)
	if cfg.MaxKeys <= 0 {
		cfg.MaxKeys = 16384
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Limiter{cfg: cfg, free: map[string]time.Time{}}
}

// Allow counts one for key and says whether it may; if not, nothing is counted and it may again after retryAfter.
func (l *Limiter) Allow(key string) (ok bool, retryAfter time.Duration) { return l.ask(key, true) }

// Peek says what [Limiter.Allow] would, and counts nothing. Failed attempts are limited so: Peek before the attempt, Allow
// after it has failed. Then those who succeed are never slowed down by it, and those who do not are not even tried.
func (l *Limiter) Peek(key string) (ok bool, retryAfter time.Duration) { return l.ask(key, false) }

func (l *Limiter) ask(key string, count bool) (ok bool, retryAfter time.Duration) {
	now := l.cfg.Clock()
	most := time.Duration(l.cfg.Burst) * l.cfg.Every
	l.mu.Lock()
	defer l.mu.Unlock()
	full, known := l.free[key]
	if !known && len(l.free) >= l.cfg.MaxKeys {
		l.sweep(now)
	}
	shared := !known && len(l.free) >= l.cfg.MaxKeys
	if shared {
		full = l.shared
	}
	ahead := min(max(full.Sub(now), 0), most) // at most full: a clock that was set back must not lock anybody out for long
	if wait := ahead + l.cfg.Every - most; wait > 0 {
		return false, wait
	}
	switch full = now.Add(ahead + l.cfg.Every); {
	case !count:
	case shared:
		l.shared = full
	default:
		l.free[key] = full
	}
	return true, 0
}

// sweep forgets the keys that are as if they had never come. It reads all of them, so it does that once each Every at most.
func (l *Limiter) sweep(now time.Time) {
	if since := now.Sub(l.swept); since >= 0 && since < l.cfg.Every {
		return
	}
	l.swept = now
	for key, full := range l.free {
		if !full.After(now) {
			delete(l.free, key)
		}
	}
}

// AddressKey is the key for a remote address ("192.0.2.1:4711", "[2001:db8::1]:80" or without a port): one host with IPv4,
// its /64 with IPv6, in which anybody has 2^64 addresses to come from (RFC 6177). Whatever is no address, as of a unix
// socket, is one key.
func AddressKey(remote string) string {
	ap, err := netip.ParseAddrPort(remote)
	addr := ap.Addr()
	if err != nil {
		if addr, err = netip.ParseAddr(remote); err != nil {
			return "other"
		}
	}
	addr = addr.Unmap().WithZone("")
	bits := 64
	if addr.Is4() {
		bits = 32
	}
	return netip.PrefixFrom(addr, bits).Masked().String()
}

package auth

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/internal/secret"
)

// ErrTooManyTickets is returned by [Tickets.Issue]: so many are waiting to be used. They are gone in [TicketsConfig.Life].
var ErrTooManyTickets = errors.New("too many tickets wait to be used")

// TicketsConfig bounds a [Tickets]. Its zero value works.
type TicketsConfig struct {
	Life        time.Duration // how long a ticket is good; 0: 30 s
	Max         int           // waiting at most; 0: 4096
	MaxPerToken int           // of one token; 0: 64, so that no token can use up what others need
	Clock       func() time.Time
}

// Tickets are for browsers, which cannot set a header on a WebSocket and must not have a token in an address: addresses are
// kept in histories and logs. Whoever has a token asks for a ticket and puts that into the address instead. It is good
// for one use, one path and half a minute.
//
// Tickets are in memory: after a restart of the service clients ask for new ones. Safe for concurrent use.
type Tickets struct {
	verifier *Verifier
	cfg      TicketsConfig

	mu    sync.Mutex
	all   map[[sha256.Size]byte]*list.Element // by the hash of the ticket
	order *list.List                          // of *ticket, the oldest first
	each  map[string]int                      // how many a token has waiting
}

type ticket struct {
	hash [sha256.Size]byte
	id   Identity
	path string
	ends time.Time
}

// NewTickets makes an empty one. A token that verifier does not know any more has no good tickets either.
func NewTickets(verifier *Verifier, cfg TicketsConfig) *Tickets {
	if cfg.Life <= 0 {
		cfg.Life = 30 * time.Second
	}
	if cfg.Max <= 0 {
		cfg.Max = 4096
	}
	if cfg.MaxPerToken <= 0 {
		cfg.MaxPerToken = 64
	}
	if cfg.Clock == nil {
		cfg.Clock = time.Now
	}
	return &Tickets{verifier: verifier, cfg: cfg, all: map[[sha256.Size]byte]*list.Element{}, order: list.New(), each: map[string]int{}}
}

// Issue makes a ticket, 256 random bits in letters that need no escaping, with which id may open path once until the
// returned moment. Whether id may do that at all is asked when it does. It returns [ErrTooManyTickets].
func (t *Tickets) Issue(id Identity, path string) (secret.Secret, time.Time, error) {
	data := make([]byte, 32)
	rand.Read(data) // never fails: https://pkg.go.dev/crypto/rand#Read
	text := readable.EncodeToString(data)
	now := t.cfg.Clock()
	tk := &ticket{hash: sha256.Sum256([]byte(text)), id: id, path: path, ends: now.Add(t.cfg.Life)}

	t.mu.Lock()
	defer t.mu.Unlock()
	t.sweep(now)
	if id.Token == "" {
		return secret.Secret{}, time.Time{}, ErrForbidden
	}
	if t.order.Len() >= t.cfg.Max || t.each[id.Token] >= t.cfg.MaxPerToken {
		return secret.Secret{}, time.Time{}, ErrTooManyTickets
	}
	t.all[tk.hash] = t.order.PushBack(tk)
	t.each[id.Token]++
	return secret.New(text), tk.ends, nil
}

// Redeem returns whose ticket s is and uses it up, also when it is not for this path: whoever shows it elsewhere should not
// have it. It returns [ErrUnauthorized] if the ticket is unknown, used, too old or for another path, or if its token is no
// good any more, and another error if that cannot be asked.
func (t *Tickets) Redeem(ctx context.Context, s secret.Secret, path string) (Identity, error) {
	now := t.cfg.Clock()
	t.mu.Lock()
	e, ok := t.all[sha256.Sum256([]byte(s.Reveal()))]
	if !ok {
		t.mu.Unlock()
		return Identity{}, ErrUnauthorized
	}
	tk := t.remove(e)
	t.mu.Unlock()

	if !now.Before(tk.ends) || tk.path != path {
		return Identity{}, ErrUnauthorized
	}
	if err := t.verifier.Still(ctx, tk.id); err != nil {
		return Identity{}, err
	}
	return tk.id, nil
}

// sweep removes those that are too old. They all live equally long, so the oldest are in front.
func (t *Tickets) sweep(now time.Time) {
	for e := t.order.Front(); e != nil && !now.Before(e.Value.(*ticket).ends); e = t.order.Front() {
		t.remove(e)
	}
}

func (t *Tickets) remove(e *list.Element) *ticket {
	tk := t.order.Remove(e).(*ticket)
	delete(t.all, tk.hash)
	if t.each[tk.id.Token]--; t.each[tk.id.Token] == 0 {
		delete(t.each, tk.id.Token)
	}
	return tk
}

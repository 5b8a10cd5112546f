package auth

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/secret"
)

const stream = "/v1/runs/01A/stream"

func newTickets(t *testing.T, cfg TicketsConfig) (*Tickets, *Verifier, *clock) {
	t.Helper()
	c := newClock()
	v := NewVerifier(open(t), VerifierConfig{Clock: c.Now})
	cfg.Clock = c.Now
	return NewTickets(v, cfg), v, c
}

func TestTicket(t *testing.T) {
	tickets, v, c := newTickets(t, TicketsConfig{})
	tok, _ := create(t, v.db, New{Name: "a", At: c.Now()})
	for _, id := range []Identity{LocalOwner, tok.identity()} {
		s, ends, err := tickets.Issue(id, stream)
		if err != nil || !ends.Equal(c.Now().Add(30*time.Second)) || len(s.Reveal()) != 52 || strings.Trim(s.Reveal(), letters) != "" {
			t.Fatalf("%d characters, ends %s, %v", len(s.Reveal()), ends, err)
		}
		c.move(30*time.Second - 1)
		if got, err := tickets.Redeem(t.Context(), s, stream); err != nil || got != id {
			t.Errorf("%v, %v", got, err)
		}
		if got, err := tickets.Redeem(t.Context(), s, stream); !errors.Is(err, ErrUnauthorized) || got != (Identity{}) {
			t.Errorf("a second time: %v, %v", got, err)
		}
	}
	if _, _, err := tickets.Issue(Identity{}, stream); !errors.Is(err, ErrForbidden) {
		t.Errorf("for nobody: %v", err)
	}
}

func TestTicketRefused(t *testing.T) {
	tickets, v, c := newTickets(t, TicketsConfig{})
	create(t, v.db, New{Name: "a", At: c.Now()})
	for name, spoil := range map[string]func(s *secret.Secret, path *string){
		"too late":        func(*secret.Secret, *string) { c.move(30 * time.Second) },
		"another path":    func(_ *secret.Secret, path *string) { *path = "/v1/runs/01B/stream" },
		"a path below":    func(_ *secret.Secret, path *string) { *path += "/x" },
		"another ticket":  func(s *secret.Secret, _ *string) { *s = secret.New(strings.Repeat("0", 52)) },
		"an empty ticket": func(s *secret.Secret, _ *string) { *s = secret.Secret{} },
		"in upper case":   func(s *secret.Secret, _ *string) { *s = secret.New(strings.ToUpper(s.Reveal())) },
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := tickets.Issue(LocalOwner, stream)
			if err != nil {
				t.Fatal(err)
			}
			path := stream
			spoil(&s, &path)
			if id, err := tickets.Redeem(t.Context(), s, path); !errors.Is(err, ErrUnauthorized) || id != (Identity{}) {
				t.Errorf("%v, %v", id, err)
			}
		})
	}
}

// Whoever shows a ticket at the wrong door has used it up.
func TestTicketAtAnotherPathIsGone(t *testing.T) {
	tickets, _, _ := newTickets(t, TicketsConfig{})
	s, _, err := tickets.Issue(LocalOwner, stream)
	if err != nil {
		t.Fatal(err)
	}
	tickets.Redeem(t.Context(), s, "/v1/runs/01B/stream")
	if _, err := tickets.Redeem(t.Context(), s, stream); !errors.Is(err, ErrUnauthorized) {
		t.Errorf("it is still good: %v", err)
	}
}

func TestTicketOfARevokedToken(t *testing.T) {
	tickets, v, c := newTickets(t, TicketsConfig{})
	tok, _ := create(t, v.db, New{Name: "a", At: c.Now()})
	s, _, err := tickets.Issue(tok.identity(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Revoke(t.Context(), LocalOwner, "a"); err != nil {
		t.Fatal(err)
	}
	if id, err := tickets.Redeem(t.Context(), s, stream); !errors.Is(err, ErrUnauthorized) || id != (Identity{}) {
		t.Errorf("%v, %v", id, err)
	}
}

func TestTicketsAreBounded(t *testing.T) {
	tickets, _, c := newTickets(t, TicketsConfig{Max: 5, MaxPerToken: 3})
	issue := func(token string) error {
		_, _, err := tickets.Issue(Identity{Token: token, Role: Runner}, stream)
		return err
	}
	for i := range 4 {
		if err := issue("a"); (err == nil) != (i < 3) || err != nil && !errors.Is(err, ErrTooManyTickets) {
			t.Errorf("number %d of a: %v", i, err)
		}
	}
	for i := range 3 {
		if err := issue(fmt.Sprint("other ", i)); (err == nil) != (i < 2) {
			t.Errorf("number %d of others: %v", i, err)
		}
	}
	s, _, _ := tickets.Issue(LocalOwner, stream)
	if !s.Empty() {
		t.Error("a ticket comes with an error")
	}
	c.move(30 * time.Second)
	if err := issue("a"); err != nil {
		t.Errorf("when all are over: %v", err)
	}
	if len(tickets.all) != 1 || tickets.order.Len() != 1 || len(tickets.each) != 1 {
		t.Errorf("%d, %d and %d are kept", len(tickets.all), tickets.order.Len(), len(tickets.each))
	}
}

func TestTicketRedeemedTogether(t *testing.T) {
	tickets, _, _ := newTickets(t, TicketsConfig{})
	for range 20 {
		s, _, err := tickets.Issue(LocalOwner, stream)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var won atomic.Int32
		for range 8 {
			wg.Go(func() {
				if _, err := tickets.Redeem(t.Context(), s, stream); err == nil {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d have got in with one ticket", won.Load())
		}
	}
}

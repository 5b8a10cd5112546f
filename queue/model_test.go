package queue_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/queue/queuetest"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/storetest"
)

// model is what a queue promises, in the simplest words.
type model struct {
	state    map[string]queue.State
	canceled map[string]bool
	token    map[string]string
	key      map[string]string // run by token and key
	order    map[string][]string
}

func (m *model) waiting(token string) (n int) {
	for run, s := range m.state {
		if (s == queue.Pending || s == queue.Queued) && (token == "" || m.token[run] == token) {
			n++
		}
	}
	return n
}

// pick chooses one of the runs in these states, if there is one.
func (m *model) pick(t *rapid.T, states ...queue.State) (run string, ok bool) {
	var all []string
	for run, s := range m.state {
		if slices.Contains(states, s) {
			all = append(all, run)
		}
	}
	if len(all) == 0 {
		return "", false
	}
	slices.Sort(all)
	return rapid.SampledFrom(all).Draw(t, "run"), true
}

// TestQueueAgreesWithItsModel does anything in any order, with servers that restart and streams that fail in between.
func TestQueueAgreesWithItsModel(t *testing.T) {
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue { // a hundred would take half a minute
		if err := checks.Value.Set("20"); err != nil {
			t.Fatal(err)
		}
		defer checks.Value.Set(checks.DefValue) // as it was
	}
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		var failed any
		path := filepath.Join(dir, fmt.Sprint(n, store.FileName))
		synctest.Test(t, func(t *testing.T) {
			// A failed check of rapid is a panic, which the bubble would not let through.
			defer func() { failed = recover() }()
			playModel(t, rt, path)
		})
		if failed != nil {
			panic(failed)
		}
	})
}

const modelQueued, modelToken, modelRunning, modelTokenRunning = 7, 4, 3, 2

func playModel(t *testing.T, rt *rapid.T, path string) {
	db, err := storetest.Open(t.Context(), path)
	if err != nil {
		rt.Fatal(err)
	}
	b := &bench{t: t, db: db, stream: new(queuetest.Stream), gates: map[string]chan struct{}{}, causes: map[string]error{}, news: make(chan string, 1000)}
	m := &model{state: map[string]queue.State{}, canceled: map[string]bool{}, token: map[string]string{}, key: map[string]string{}, order: map[string][]string{}}
	open := func() {
		q, err := queue.Open(t.Context(), queue.Config{
			DB: db, Stream: b.stream, Worker: "me", Queued: modelQueued, TokenQueued: modelToken, Running: modelRunning,
			TokenRunning: modelTokenRunning, Grace: time.Hour, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			rt.Fatal(err)
		}
		b.Queue = q
		b.work()
	}
	shut := func() {
		for run, s := range m.state {
			if s == queue.Running {
				b.let(run)
				m.state[run] = queue.Ended
			}
		}
		b.stream.Fail(nil)
		b.halt()
		if err := b.Close(); err != nil {
			rt.Error(err)
		}
	}
	open()
	defer func() {
		shut()
		if err := db.Close(); err != nil {
			rt.Error(err)
		}
	}()
	next := 0
	quiet := func() { // until it has done all that it can
		<-time.After(6 * time.Second)
		synctest.Wait()
	}
	rt.Repeat(map[string]func(*rapid.T){
		"submit": func(rt *rapid.T) {
			next++
			s := queue.Submission{
				Run: fmt.Sprint("r", next), Token: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "token"), Hash: rapid.SampledFrom([]string{"h", "i"}).Draw(rt, "hash"),
				Key: rapid.SampledFrom([]string{"", "", "k", "l"}).Draw(rt, "key"), Pending: rapid.Bool().Draw(rt, "pending"),
			}
			e, existed, err := b.Submit(t.Context(), s, nil)
			_, full := errors.AsType[*queue.FullError](err)
			old := m.key[s.Token+s.Key]
			switch {
			case s.Key != "" && old != "" && old[:1] != s.Hash:
				if !errors.Is(err, queue.ErrKeyReused) {
					rt.Fatalf("a key of another request: %v", err)
				}
			case s.Key != "" && old != "":
				if err != nil || !existed || e.Run != old[1:] {
					rt.Fatalf("a key that was used for %s: %s, existed %t, %v", old[1:], e.Run, existed, err)
				}
			case m.waiting(s.Token) >= modelToken || m.waiting("") >= modelQueued:
				if !full {
					rt.Fatalf("%d of %d wait: %v", m.waiting(s.Token), m.waiting(""), err)
				}
			default:
				if err != nil || existed {
					rt.Fatalf("existed %t, %v", existed, err)
				}
				m.state[s.Run], m.token[s.Run] = queue.Queued, s.Token
				if s.Pending {
					m.state[s.Run] = queue.Pending
				} else {
					m.order[s.Token] = append(m.order[s.Token], s.Run)
				}
				if s.Key != "" {
					m.key[s.Token+s.Key] = s.Hash + s.Run
				}
			}
		},
		"release": func(rt *rapid.T) {
			run, ok := m.pick(rt, queue.Pending, queue.Queued, queue.Running, queue.Ended)
			if !ok {
				return
			}
			err := b.Release(t.Context(), run, nil)
			switch {
			case m.state[run] == queue.Ended:
				if !errors.Is(err, queue.ErrEnded) {
					rt.Fatal(err)
				}
			case m.canceled[run]:
				if !errors.Is(err, queue.ErrCanceled) {
					rt.Fatal(err)
				}
			case err != nil:
				rt.Fatal(err)
			case m.state[run] == queue.Pending:
				m.state[run] = queue.Queued
				m.order[m.token[run]] = append(m.order[m.token[run]], run)
			}
		},
		"cancel": func(rt *rapid.T) {
			run, ok := m.pick(rt, queue.Pending, queue.Queued, queue.Running, queue.Ended)
			if !ok {
				return
			}
			waiting, err := b.Cancel(t.Context(), run)
			switch m.state[run] {
			case queue.Ended:
				if !errors.Is(err, queue.ErrEnded) {
					rt.Fatal(err)
				}
				return
			case queue.Running:
				m.state[run] = queue.Ended // its function ends it
			}
			if err != nil || waiting != (m.state[run] != queue.Ended) {
				rt.Fatalf("waiting %t, %v", waiting, err)
			}
			m.canceled[run] = true
		},
		"done": func(rt *rapid.T) {
			run, ok := m.pick(rt, queue.Pending, queue.Queued, queue.Ended)
			if !ok {
				return
			}
			err := b.Done(t.Context(), run, nil)
			if m.state[run] == queue.Ended != errors.Is(err, queue.ErrEnded) || err != nil && m.state[run] != queue.Ended {
				rt.Fatal(err)
			}
			m.state[run] = queue.Ended
		},
		"finish": func(rt *rapid.T) {
			run, ok := m.pick(rt, queue.Running)
			if !ok {
				return
			}
			b.let(run)
			m.state[run] = queue.Ended
		},
		"restart": func(*rapid.T) {
			shut()
			open()
		},
		"new stream": func(*rapid.T) {
			shut()
			b.stream = new(queuetest.Stream)
			open()
		},
		"stream fails for a while": func(rt *rapid.T) {
			b.stream.Fail(errors.New("down"))
			quiet()
			b.stream.Fail(nil)
		},
		"": func(rt *rapid.T) {
			quiet()
			settle(rt, b, m)
		},
	})
}

// settle lets the model start what the queue has started, and compares.
func settle(t *rapid.T, b *bench, m *model) {
	for {
		select {
		case run := <-b.news:
			switch {
			case m.canceled[run] && m.state[run] != queue.Ended:
				t.Fatalf("%s was started, and canceled", run)
			case m.state[run] == queue.Queued:
				m.state[run] = queue.Running
			case m.state[run] != queue.Ended: // started and ended between two looks
				t.Fatalf("%s was started, and was %s", run, m.state[run])
			}
			continue
		default:
		}
		break
	}
	active := map[string]int{}
	for run, s := range m.state {
		if s == queue.Running {
			active[m.token[run]]++
			active[""]++
		}
	}
	for run, want := range m.state {
		e, err := b.Get(context.Background(), run)
		if err != nil || e.State != want || want != queue.Ended && e.Canceled != m.canceled[run] {
			t.Fatalf("%s is %s, canceled %t, %v; want %s, canceled %t", run, e.State, e.Canceled, err, want, m.canceled[run])
		}
		if want == queue.Queued && !m.canceled[run] && active[""] < modelRunning && active[m.token[run]] < modelTokenRunning {
			t.Fatalf("%s waits, though only %v run", run, active)
		}
	}
	if active[""] > modelRunning || active["a"] > modelTokenRunning || active["b"] > modelTokenRunning {
		t.Fatalf("%v run", active)
	}
	waiting := 0
	for run, s := range m.state {
		if s == queue.Queued && !m.canceled[run] {
			waiting++
		}
	}
	if w, r := b.Depth(); w != waiting || r != active[""] {
		t.Fatalf("depth %d and %d, want %d and %d", w, r, waiting, active[""])
	}
}

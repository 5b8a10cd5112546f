package docker

import (
	"maps"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/watch"
)

type event = watch.Event

// cloned counts processes and threads.
const cloned = watch.Clone

const (
	lastEvents = 64   // kept for a violation
	eventRoom  = 4096 // between the kernel's reader and a slow listener
)

// events reads what the host's kernel has seen, and waits for nobody.
type events struct {
	sandbox *sandbox
	done    chan struct{} // closed when the scope's channel has been read to its end
	told    chan struct{} // closed when the listener has heard all

	mu        sync.Mutex
	counts    map[watch.Kind]int64
	last      []event
	dropped   int64
	tmp, disk int64 // writes that found no room
}

func watchEvents(s *sandbox) *events {
	e := &events{sandbox: s, done: make(chan struct{}), told: make(chan struct{}), counts: map[watch.Kind]int64{}}
	queue := make(chan event, eventRoom)
	go func() {
		defer close(e.told)
		for one := range queue {
			s.spec.Events(one)
		}
	}()
	go e.read(s.scope, queue)
	return e
}

func (e *events) read(scope Scope, queue chan event) {
	defer close(e.done)
	defer close(queue)
	for one := range scope.Events() {
		e.note(one)
		if one.Result != "" {
			if rule, ok := refusedBy(one, e.sandbox.spec.NoSpawn); ok {
				e.sandbox.refused.Add(rule, driver.Act{Syscall: callOf(one), Argument: one.Argument})
			}
		}
		if e.sandbox.spec.Events == nil {
			continue
		}
		select {
		case queue <- one:
		default:
			e.mu.Lock()
			e.dropped++
			e.mu.Unlock()
		}
	}
}

func (e *events) note(one event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.counts[one.Kind]++
	if len(e.last) == lastEvents {
		e.last = append(e.last[:0], e.last[1:]...)
	}
	e.last = append(e.last, one)
	if one.Result == "ENOSPC" {
		e.noRoom()
	}
}

// noRoom says which of the run's file systems is full. An event does not say which file a write was to.
func (e *events) noRoom() {
	for _, p := range e.sandbox.places {
		var s unix.Statfs_t
		if unix.Fstatfs(p.fd, &s) != nil || s.Bfree > 0 && s.Ffree > 0 {
			continue
		}
		if p.dir == "/workspace" {
			e.disk++
		} else {
			e.tmp++
		}
	}
}

// wait waits for the last event and until the listener has heard it.
func (e *events) wait() {
	<-e.done
	<-e.told
}

func (e *events) watched() driver.Watched {
	e.mu.Lock()
	defer e.mu.Unlock()
	return driver.Watched{Counts: maps.Clone(e.counts), Last: e.last, Dropped: e.dropped}
}

func (e *events) full() (tmp, disk int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.tmp, e.disk
}

// lastWords are the last events before a violation, which is the newest of them, in the words of the rule.
func lastWords(list []event, first event, v *driver.Violation) []event {
	for i, one := range list {
		if one.Result == "killed" && one.At.Equal(first.At) && one.Thread == first.Thread {
			list = list[:i]
			break
		}
	}
	first.Result = "killed"
	if _, ok := rules.Named(v.Rule); ok && v.Argument != "" {
		first.Argument = v.Argument
	}
	return append(list[max(0, len(list)-lastEvents+1):len(list):len(list)], first)
}

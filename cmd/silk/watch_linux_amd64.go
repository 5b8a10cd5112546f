package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/watch/bpf"
)

// newHostWatch begins to load the watcher in the host's kernel, which takes some 50 ms of processor time beside what
// else a start does. It returns nil and why if the host certainly does not let us watch.
func newHostWatch() (begin func(pid int, group string) (gvisor.Scope, error), why string) {
	if c := bpf.Permitted(); c.Answer != bpf.Yes {
		return nil, c.Reason
	}
	open := sync.OnceValues(func() (*bpf.Watcher, error) { return bpf.Open(context.Background(), bpf.Config{Kill: true}) })
	go open() // whoever begins to watch has its error
	return func(pid int, group string) (gvisor.Scope, error) {
		w, err := open()
		if errors.Is(err, bpf.ErrUnavailable) {
			return nil, gvisor.NotWatched(err.Error())
		}
		if err == nil {
			err = w.Check()
		}
		if err != nil {
			return nil, err
		}
		scope, err := w.Watch(pid, group)
		if err != nil {
			return nil, err // no typed nil
		}
		return scope, nil
	}, ""
}

// watchFact says whether the host's kernel can watch sandboxes besides.
func watchFact(must bool) fact {
	const name = "host watch (eBPF)"
	var parts []string
	report := bpf.Probe()
	usable, reason := report.Usable()
	for _, c := range report {
		if c.Answer != bpf.Yes && c.Optional {
			parts = append(parts, fmt.Sprintf("%s: %s", c.Name, c.Reason))
		}
	}
	switch {
	case usable == bpf.Yes:
		return fact{name, factYes, strings.Join(append([]string{"watch: true or require_watch: true in the configuration uses it"}, parts...), "; without ")}
	case must:
		return fact{name, factFatal, "require_watch is set, and: " + reason}
	case usable == bpf.No:
		return fact{name, factNo, reason}
	}
	return fact{name, factUnknown, reason}
}

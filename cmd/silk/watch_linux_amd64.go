package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/watch/bpf"
)

// hostWatch is the watcher in the host's kernel, for sandbox kernels. Its programs are loaded when the first sandbox
// starts, which takes a tenth of a second: more than the rest of a short run.
type hostWatch struct {
	open func() (*bpf.Watcher, error)
}

// newHostWatch returns nil and why if the host does not let us watch.
func newHostWatch() (w *hostWatch, why string) {
	if usable, reason := bpf.Probe().Usable(); usable != bpf.Yes {
		return nil, reason
	}
	return &hostWatch{sync.OnceValues(func() (*bpf.Watcher, error) { return bpf.Open(context.Background(), bpf.Config{Kill: true}) })}, ""
}

// hostScope is a scope and the watcher that it needs.
type hostScope struct {
	*bpf.Scope

	lost <-chan struct{}
}

func (s hostScope) Lost() <-chan struct{} { return s.lost }

func (w *hostWatch) begin(pid int, group string) (gvisor.Scope, error) {
	watcher, err := w.open()
	if err != nil {
		return nil, err
	}
	if err := watcher.Check(); err != nil {
		return nil, fmt.Errorf("look whether the watcher sees anything: %w", err)
	}
	scope, err := watcher.Watch(pid, group)
	if err != nil {
		return nil, err
	}
	return hostScope{scope, watcher.Done()}, nil
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

package run

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
)

// Egress opens ways out of sandboxes.
type Egress interface {
	// Open opens one and returns before it is ready. tell is called with each decision, one after the other, until the way has ended.
	Open(order egress.Order, tell func(egress.Decision)) (egress.Way, error)
}

// maxDestinations bounds the destinations that an outcome, a record and the audit trail name of one run; the rest is counted.
const maxDestinations = 256

// lastDecisions is how long the gateway is waited for when the sandbox is gone: what a program said last is passed on for a second at most. What
// comes after, such as the record, has time of its own.
const lastDecisions = 3 * time.Second

// errRefused ends a run whose profile says that an attempt to leave does.
var errRefused = errors.New("an attempt to reach what is not allowed")

// orderOf is what a gateway is told of a plan.
func orderOf(id string, p policy.Plan) (egress.Order, error) {
	o := egress.Order{ID: id, Open: p.Network == profile.NetworkAllow, Rules: p.Hosts, Targets: p.Egress.Targets, Hosts: map[string]netip.Addr{}}
	for name, text := range p.Egress.Addrs {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return o, fmt.Errorf("egress: hosts: %s: %w", name, err)
		}
		o.Hosts[name] = addr
	}
	return o, nil
}

// secretsOf puts a plan's secrets into an order, and returns what the sandbox has to trust for them.
func (l *life) secretsOf(o *egress.Order) (*driver.File, error) {
	var names []string
	for _, text := range l.plan.Egress.Secrets {
		s, err := egress.ParseSecret(text)
		if err != nil {
			return nil, err
		}
		if l.engine.cfg.Secret == nil {
			return nil, &policy.Denial{Rule: policy.RuleSecret, Detail: "there are no secrets here", Fix: "leave them out"}
		}
		if s.Value, err = l.engine.cfg.Secret(s.Name); err == nil {
			err = s.CheckValue()
		}
		if err != nil {
			return nil, &fault{ReasonMissing, err}
		}
		o.Secrets, names = append(o.Secrets, s), append(names, s.Host)
	}
	if len(names) == 0 {
		return nil, nil
	}
	a, err := egress.NewAuthority(time.Now(), names)
	if err != nil {
		return nil, host(err)
	}
	o.Authority, o.Roots = &a, l.engine.cfg.Authorities
	return &driver.File{Path: policy.Bundle, Content: a.PEM(), After: true}, nil
}

// maxTold bounds the decisions that wait for IO.OnEgress: one process decides for many runs, and none of them waits for another's caller.
const maxTold = 1024

// traffic is what a run has reached or was kept from, by destination.
type traffic struct {
	told    chan egress.Decision // nil: nobody is told
	telling sync.WaitGroup

	mu      sync.Mutex
	by      map[destination]int // index in list
	list    []egress.Decision
	more    int                   // decisions about destinations that are not in list
	refused func(egress.Decision) // ends the run; nil: it goes on
	ended   *egress.Decision      // the refusal that ended it
}

// destination is what decisions are added up by.
type destination struct {
	kind, host string
	port       uint16
	allowed    bool
	rule       string
}

// decided is called by the gateway.
func (t *traffic) decided(d egress.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := destination{d.Kind, d.Host, d.Port, d.Allowed, d.Rule}
	i, known := t.by[key]
	switch {
	case known:
		sum := &t.list[i]
		sum.Count, sum.Sent, sum.Taken, sum.Lasted = sum.Count+d.Count, sum.Sent+d.Sent, sum.Taken+d.Taken, sum.Lasted+d.Lasted
	case len(t.list) == maxDestinations:
		t.more += d.Count
	default:
		t.by[key], t.list = len(t.list), append(t.list, d)
	}
	if !d.Allowed && t.ended == nil {
		t.ended = &d
		if t.refused != nil {
			t.refused(d)
		}
	}
	select {
	case t.told <- d:
	default: // nobody, or who does not keep up: the outcome has it
	}
}

// tellTo has tell called with what is decided from now on, until finish.
func (t *traffic) tellTo(tell func(egress.Decision)) {
	if tell == nil {
		return
	}
	told := make(chan egress.Decision, maxTold)
	t.told = told
	t.telling.Go(func() {
		for d := range told {
			tell(d)
		}
	})
}

// finish returns when all is told. What is decided after is told to nobody.
func (t *traffic) finish() {
	t.mu.Lock()
	if t.told != nil {
		close(t.told)
		t.told = nil
	}
	t.mu.Unlock()
	t.telling.Wait()
}

// onRefused has end called at the first refusal, if it was not before.
func (t *traffic) onRefused(end func(egress.Decision)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refused = end; t.ended != nil {
		end(*t.ended)
	}
}

// openEgress opens the way out of a plan that has one. What it puts into spec is the driver's; the way ends with the sandbox.
func (l *life) openEgress(spec *driver.Spec) (ready func(context.Context) error, err error) {
	if spec.Network != driver.NetworkLink {
		return func(context.Context) error { return nil }, nil
	}
	if l.engine.cfg.Egress == nil {
		return nil, noGateway()
	}
	order, err := orderOf(l.id, l.plan)
	if err != nil {
		return nil, err
	}
	bundle, err := l.secretsOf(&order)
	if err != nil {
		return nil, err
	}
	if bundle != nil {
		spec.Files = append(spec.Files, *bundle)
	}
	l.traffic = &traffic{by: map[destination]int{}}
	l.traffic.tellTo(l.io.OnEgress)
	l.undo.PushFunc(l.traffic.finish)
	way, err := l.engine.cfg.Egress.Open(order, l.traffic.decided)
	if err != nil {
		return nil, host(err)
	}
	l.way = &way
	l.undo.Push(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeoutCause(ctx, lastDecisions, errors.New("the gateway does not answer"))
		defer cancel()
		l.wayLost = way.Wait(ctx)
		return nil
	})
	l.undo.Push(func(context.Context) error { return l.closeLink() })
	spec.Link = driver.Link{File: way.Link, Addrs: []netip.Addr{egress.Sandbox4, egress.Sandbox6}, MTU: egress.MTU}
	resolver := fmt.Sprintf("nameserver %s\nnameserver %s\n", egress.Gateway4, egress.Gateway6)
	spec.Files = append(spec.Files, driver.File{Path: "/etc/resolv.conf", Content: []byte(resolver)})
	return way.Ready, nil
}

func noGateway() error {
	return &policy.Denial{Rule: policy.RuleNetwork, Detail: "this silk has no egress gateway", Fix: "ask for network deny or loopback"}
}

// closeLink closes our copy of the sandbox's end of its way out: the way ends when the sandbox does.
func (l *life) closeLink() error {
	if l.way == nil || l.way.Link == nil {
		return nil
	}
	err := l.way.Link.Close()
	l.way.Link = nil
	return err
}

// destinations are what the outcome says of the traffic, refusals first.
func (t *traffic) destinations() (list []Destination, more int) {
	if t == nil {
		return nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.list {
		one := Destination{Kind: d.Kind, Host: d.Host, Port: int(d.Port), Allowed: d.Allowed, Rule: d.Rule, Reason: d.Reason, Count: d.Count, Sent: d.Sent, Taken: d.Taken, LastedMs: d.Lasted.Milliseconds()}
		if d.Addr.IsValid() {
			one.Addr = d.Addr.String()
		}
		list = append(list, one)
	}
	slices.SortStableFunc(list, func(a, b Destination) int {
		switch {
		case a.Allowed == b.Allowed:
			return 0
		case b.Allowed:
			return -1
		}
		return 1
	})
	return list, t.more
}

// Destination is what one run has reached, or was kept from.
type Destination = record.Destination

// leaveKills says whether an attempt to reach what is not allowed ends the run.
func (l *life) leaveKills() bool {
	return l.plan.Egress != nil && l.plan.Egress.OnRefused == profile.RefusedKills
}

// judgeEgress makes a violation of the attempt that ended the run, also where the program was faster than its end, and an error of a run whose
// network was gone from some moment on: its program may have made something else of it.
func (l *life) judgeEgress() {
	if l.wayLost != nil && (l.out.Kind == OK || l.out.Kind == Failed) {
		l.out.Message = fmt.Sprintf("the network was lost while the program ran: %v; the program itself ended with %s", l.wayLost, l.out.Kind)
		l.out.Kind, l.out.Reason = Error, ReasonHost
	}
	if l.traffic == nil || !l.leaveKills() || l.out.Kind == Violated || l.out.Kind == Denied || l.out.Kind == Error {
		return
	}
	l.traffic.mu.Lock()
	d := l.traffic.ended
	l.traffic.mu.Unlock()
	if d == nil {
		return
	}
	call := map[string]string{"tcp": "connect", "udp": "sendto", "dns": "sendto"}[d.Kind]
	v := driver.Violation{Rule: "egress." + d.Rule, Syscall: call, Argument: strings.TrimSuffix(fmt.Sprintf("%s:%d", d.Host, d.Port), ":0")}
	l.out.Kind, l.out.Rule, l.out.Syscall, l.out.Argument = Violated, v.Rule, v.Syscall, v.Argument
	l.out.Message, l.out.ExitCode, l.out.Signal = "policy ended the run: "+v.String(), nil, 0
	delete(l.out.Flags, "workspace_lost") // as of every violation
}

// events are the audit events of the traffic: one for each destination, and one for those that are not named.
func (t *traffic) events(add func(at time.Time, data map[string]any)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.list {
		data := map[string]any{"kind": d.Kind, "host": d.Host, "port": d.Port, "allowed": d.Allowed, "count": d.Count}
		if d.Rule != "" {
			data["rule"] = d.Rule
		}
		if d.Reason != "" {
			data["reason"] = d.Reason
		}
		if d.Addr.IsValid() {
			data["addr"] = d.Addr.String()
		}
		if d.Allowed {
			data["sent"], data["taken"], data["durationMs"] = d.Sent, d.Taken, d.Lasted.Milliseconds()
		}
		add(d.At, data)
	}
	if t.more > 0 {
		add(time.Now(), map[string]any{"kind": "others", "count": t.more})
	}
}

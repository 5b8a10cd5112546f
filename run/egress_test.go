//go:build unix

package run

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
)

// gateway is one that makes up what happens: it tells its decisions when the sandbox's end is closed, or at once.
type gateway struct {
	t         *testing.T
	decisions []egress.Decision
	early     bool  // they are told before the sandbox runs
	late      bool  // they are told when the sandbox is gone
	ready     error // of Ready
	lost      error // of Wait

	order egress.Order
}

func (g *gateway) Open(order egress.Order, tell func(egress.Decision)) (egress.Way, error) {
	g.order = order
	ours, theirs, err := os.Pipe()
	if err != nil {
		return egress.Way{}, err
	}
	say := func() {
		for _, d := range g.decisions {
			tell(d)
		}
	}
	if g.early {
		say()
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if n, err := ours.Read(make([]byte, 1)); n != 0 || err == nil {
			g.t.Error("the sandbox's end says something")
		}
		if !g.early && !g.late {
			say()
		}
		_ = ours.Close()
	}()
	return egress.Way{Link: theirs, Ready: func(context.Context) error { return g.ready }, Wait: func(context.Context) error {
		<-ended
		if g.late {
			say()
		}
		return g.lost
	}}, nil
}

// profiled is policy.Decide with a profile that reaches api.example:443.
func profiled(onRefused string, owner policy.Grants) func(policy.Request) (policy.Plan, error) {
	return func(req policy.Request) (policy.Plan, error) {
		return policy.Decide(req, profile.Profile{
			Name: "test", Image: "test", Network: profile.NetworkAllowlist, Hosts: []string{"api.example:443"}, OnRefused: onRefused, Limits: profile.Defaults,
		}, owner)
	}
}

var (
	reached = egress.Decision{Kind: "tcp", Host: "api.example", Port: 443, Allowed: true, Addr: netip.MustParseAddr("93.184.215.14"), Sent: 10, Taken: 200, Count: 1, Lasted: time.Second, At: time.UnixMilli(1000)}
	refusal = egress.Decision{Kind: "dns", Host: "pip.example", Rule: egress.RefusedName, Reason: `no rule has the name "pip.example"`, Count: 1, At: time.UnixMilli(2000)}
)

func TestEgress(t *testing.T) {
	again := refusal
	again.Count = 4
	g := &gateway{t: t, decisions: []egress.Decision{reached, refusal, reached, again}}
	owner := policy.Grants{Addrs: map[string]string{"api.example": "127.0.0.1", "other.example": "127.0.0.1"}, Targets: []string{"127.0.0.1/32:443"}}
	s := newStand(t, func(c *Config) { c.Decide, c.Egress = profiled("", owner), g })
	var spec driver.Spec
	s.fake.Started = func(given driver.Spec) { spec = given }
	var told []string
	out := s.run(policy.Request{Client: policy.ClientAPI, Args: []string{"fake"}}, IO{OnEgress: func(d egress.Decision) {
		told = append(told, fmt.Sprint(d.Host, " ", d.Allowed, " ", d.Count))
	}})
	want := egress.Order{ID: out.Run, Rules: []string{"api.example:443"}, Hosts: map[string]netip.Addr{"api.example": netip.MustParseAddr("127.0.0.1")}, Targets: []string{"127.0.0.1/32:443"}}
	if d := cmp.Diff(want, g.order, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error("order:", d)
	}
	if spec.Network != driver.NetworkLink || len(spec.Link.Addrs) != 2 || spec.Link.MTU != egress.MTU || len(spec.Files) != 1 || !strings.Contains(string(spec.Files[0].Content), egress.Gateway4.String()) {
		t.Errorf("spec: %+v, %+v", spec.Link, spec.Files)
	}
	if d := cmp.Diff([]string{"api.example true 1", "pip.example false 1", "api.example true 1", "pip.example false 4"}, told); d != "" {
		t.Error("told:", d)
	}
	destinations := []Destination{
		{Kind: "dns", Host: "pip.example", Rule: "name", Reason: refusal.Reason, Count: 5},
		{Kind: "tcp", Host: "api.example", Port: 443, Allowed: true, Addr: "93.184.215.14", Count: 2, Sent: 20, Taken: 400, LastedMs: 2000},
	}
	if d := cmp.Diff(destinations, out.Egress); d != "" {
		t.Error("outcome:", d)
	}
	entry := s.checkRecorded(out, "started network_decision network_decision completed")
	if d := cmp.Diff([]record.Destination{record.Destination(destinations[0]), record.Destination(destinations[1])}, entry.Record.Outcome.Egress); d != "" {
		t.Error("record:", d)
	}
	var audited []string
	for _, e := range s.events(out.Run) {
		if e.Name == audit.NetworkDecision {
			audited = append(audited, fmt.Sprintf("%d %s", e.Timestamp, e.Data))
		}
	}
	if d := cmp.Diff([]string{
		fmt.Sprintf(`1000 {"addr":"93.184.215.14","allowed":true,"count":2,"durationMs":2000,"host":"api.example","intentId":%q,"kind":"tcp","port":443,"sent":20,"taken":400}`, out.Run),
		fmt.Sprintf(`2000 {"allowed":false,"count":5,"host":"pip.example","intentId":%q,"kind":"dns","port":0,"reason":"no rule has the name \"pip.example\"","rule":"name"}`, out.Run),
	}, audited); d != "" {
		t.Error("audit:", d)
	}
}

// events are the audit events of a run, the first one first.
func (s *stand) events(run string) []audit.Event {
	s.Helper()
	list, err := audit.List(s.Context(), s.db(), audit.Filter{Run: run, Limit: 2 * maxDestinations})
	if err != nil {
		s.Fatal(err)
	}
	slices.Reverse(list)
	return list
}

// TestEgressIsBounded: a program makes up names as fast as it can.
func TestEgressIsBounded(t *testing.T) {
	g := &gateway{t: t}
	for i := range maxDestinations + 10 {
		d := refusal
		d.Host = fmt.Sprintf("h%d.example", i)
		g.decisions = append(g.decisions, d)
	}
	s := newStand(t, func(c *Config) { c.Decide, c.Egress = profiled("", policy.Grants{}), g })
	out := s.run(policy.Request{Client: policy.ClientAPI, Args: []string{"fake"}}, IO{})
	if len(out.Egress) != maxDestinations || out.EgressMore != 10 {
		t.Errorf("%d destinations and %d more", len(out.Egress), out.EgressMore)
	}
	events := s.events(out.Run)
	if n := len(events); n != maxDestinations+3 {
		t.Errorf("%d events, want one for each destination, one for the rest, the start and the end", n)
	}
}

// TestSlowCaller: one gateway decides for many runs, and does not wait for a caller of one of them.
func TestSlowCaller(t *testing.T) {
	g := &gateway{t: t, early: true}
	for range 3 * maxTold {
		g.decisions = append(g.decisions, refusal)
	}
	s := newStand(t, func(c *Config) { c.Decide, c.Egress = profiled("", policy.Grants{}), g })
	decided, told := make(chan struct{}), 0
	s.fake.Started = func(driver.Spec) { close(decided) }
	out := s.run(policy.Request{Client: policy.ClientAPI, Args: []string{"fake"}}, IO{OnEgress: func(egress.Decision) {
		<-decided // Open has told all of them before
		told++
	}})
	if told < maxTold || told > maxTold+1 || len(out.Egress) != 1 || out.Egress[0].Count != 3*maxTold {
		t.Errorf("%d told, outcome %+v", told, out.Egress)
	}
}

// TestRefusedKills: the first attempt to leave ends the run, whether it comes while the program runs or is told when it has ended.
func TestRefusedKills(t *testing.T) {
	for name, test := range map[string]struct {
		early, late bool
		args        []string
		limit       time.Duration
	}{
		"while it runs":             {true, false, []string{"fake", "write:a=1", "sleep:1h"}, 20 * time.Second},
		"too late to be killed":     {false, true, []string{"fake"}, 20 * time.Second},
		"when its time is over too": {false, true, []string{"fake", "sleep:1h"}, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			second := egress.Decision{Kind: "tcp", Host: "second.example", Port: 1, Rule: egress.RefusedPort, Count: 1, At: time.UnixMilli(3000)}
			g := &gateway{t: t, decisions: []egress.Decision{reached, refusal, second}, early: test.early, late: test.late}
			s := newStand(t, func(c *Config) { c.Decide, c.Egress = profiled(profile.RefusedKills, policy.Grants{}), g })
			out, err := s.engine.Run(t.Context(), policy.Request{Client: policy.ClientAPI, Args: test.args, Limits: profile.Limits{Timeout: test.limit}}, IO{})
			if err != nil || out.Kind != Violated || out.Rule != "egress.name" || out.Syscall != "sendto" || out.Argument != "pip.example" || out.ExitCode != nil || out.ExitStatus() != 159 {
				t.Errorf("%+v, %v", out, err)
			}
			if out.WallMs > 10_000 || test.early && len(out.Artifacts) > 0 { // as every violation: at once, and what it made goes with it
				t.Errorf("it was ended after %d ms, with %v", out.WallMs, out.Artifacts)
			}
			if entry := s.checkRecorded(out, "started network_decision network_decision network_decision security_violation error"); entry.Record.Policy.OnRefused != profile.RefusedKills {
				t.Errorf("recorded policy: %+v", entry.Record.Policy)
			}
		})
	}
}

func TestEgressThatIsNotThere(t *testing.T) {
	for name, test := range map[string]struct {
		egress  Egress
		secrets []string
		kind    Kind
		text    string
	}{
		"no gateway":                    {nil, nil, Denied, "no egress gateway"},
		"one that does not come up":     {&gateway{t: t, ready: errors.New("no memory")}, nil, Error, "no memory"},
		"one that dies":                 {&gateway{t: t, lost: errors.New("it has died")}, nil, Error, "the network was lost while the program ran: it has died; the program itself ended with ok"},
		"a secret that nobody has":      {&gateway{t: t}, []string{"TOKEN@api.example:443/X-Key"}, Denied, "no secrets here"},
		"a secret for who may not have": {&gateway{t: t}, []string{"TOKEN@other.example:443/X-Key"}, Error, "add other.example:443 to them"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, func(c *Config) { c.Decide, c.Egress = profiled("", policy.Grants{}), test.egress })
			out := s.run(policy.Request{Client: policy.ClientCLI, Args: []string{"fake"}, Secrets: test.secrets}, IO{})
			if out.Kind != test.kind || !strings.Contains(out.Message, test.text) {
				t.Errorf("%s %q, want %s %q", out.Kind, out.Message, test.kind, test.text)
			}
		})
	}
}

// TestSecret: the value goes to the gateway, and nowhere else.
func TestSecret(t *testing.T) {
	const value = "Bearer s3cr3t"
	g := &gateway{t: t}
	s := newStand(t, func(c *Config) {
		c.Decide, c.Egress = profiled("", policy.Grants{}), g
		c.Secret = func(name string) (string, error) { return map[string]string{"TOKEN": value}[name], nil }
	})
	var spec driver.Spec
	s.fake.Started = func(given driver.Spec) { spec = given }
	out := s.run(policy.Request{Client: policy.ClientCLI, Args: []string{"fake"}, Secrets: []string{"TOKEN@api.example:443/Authorization"}}, IO{})
	if len(g.order.Secrets) != 1 || g.order.Secrets[0].Value != value || g.order.Authority == nil {
		t.Errorf("order: %+v", g.order)
	}
	if !strings.Contains(strings.Join(spec.Env, "\n"), "TOKEN=silk-secret-TOKEN") || !strings.Contains(strings.Join(spec.Env, "\n"), "SSL_CERT_FILE="+policy.Bundle) {
		t.Errorf("environment: %q", spec.Env)
	}
	if n := len(spec.Files); n != 2 || spec.Files[0].Path != policy.Bundle || !spec.Files[0].After || string(spec.Files[0].Content) != string(g.order.Authority.PEM()) {
		t.Errorf("files: %+v", spec.Files)
	}
	entry := s.checkRecorded(out, "started completed")
	if all := fmt.Sprintf("%+v %s %+v %+v", entry.Record, entry.Plan, s.events(out.Run), spec.Env); strings.Contains(all, "s3cr3t") {
		t.Errorf("the value is in %s", all)
	}
	if !cmp.Equal(entry.Record.Policy.Secrets, []string{"TOKEN@api.example:443/Authorization"}) {
		t.Errorf("record: %q", entry.Record.Policy.Secrets)
	}
	bad, err := s.engine.Run(t.Context(), policy.Request{Client: policy.ClientCLI, Args: []string{"fake"}, Secrets: []string{"NONE@api.example:443/Authorization"}}, IO{})
	if bad.Kind != Error || bad.Reason != ReasonMissing || !strings.Contains(bad.Message, "secret NONE is empty") {
		t.Errorf("one without a value: %+v, %v", bad, err)
	}
}

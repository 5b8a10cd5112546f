package policy

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/profile"
)

// width orders the network modes from the narrowest on.
var width = map[string]int{
	profile.NetworkDeny: 0, profile.NetworkLoopback: 1, profile.NetworkLocalFork: 1, profile.NetworkAllowlist: 2, profile.NetworkAllow: 3,
}

// network settles the mode. Wider than the profile's it needs a grant, each host its own.
func (d *decision) network() {
	mode := or(d.req.Network, d.prof.Network)
	if len(d.req.Hosts) > 0 && d.req.Network == "" {
		mode = profile.NetworkAllowlist
	}
	rank, known := width[mode]
	if !known {
		d.fault("network %q is not one of deny, loopback, allow, or a list of host:port", mode)
		return
	}
	ceiling, known := width[d.prof.Network]
	if !known {
		d.fault("profile %s has the unknown network %q", d.prof.Name, d.prof.Network)
		return
	}
	if d.prof.Network == profile.NetworkLocalFork && rank > ceiling {
		// What is signed on a chain in a sandbox must never be able to reach a real one, whoever wants it.
		d.deny(RuleNetwork, "leave the network out", "profile %s keeps its chain in the sandbox: there is no way out, and no grant for one", d.prof.Name)
		return
	}
	if mode != profile.NetworkAllowlist && len(d.req.Hosts) > 0 {
		d.fault("network %s takes no hosts; name them without it", mode)
	}
	d.plan.Network = mode

	switch mode {
	case profile.NetworkAllowlist:
		d.plan.Egress = d.egress()
		d.hosts()
		d.secrets()
	case profile.NetworkAllow:
		// Never by a flag alone, whoever gives it: an approval names this plan.
		d.plan.Egress = d.egress()
		if d.req.Client == ClientMCP || d.req.Client == ClientRuntime {
			d.deny(RuleNetwork, "ask for the hosts that are needed", "network allow is beyond what this door may ask for")
			return
		}
		d.plan.Grants = append(d.plan.Grants, "network allow (approval)")
		d.approval = append(d.approval, "network allow")
	case profile.NetworkDeny:
		d.service()
	default:
		if rank > ceiling {
			d.widen(RuleNetwork, "network "+mode, d.prof.Network)
		}
	}
	if mode != profile.NetworkAllowlist && len(d.req.Secrets) > 0 {
		d.fault("secrets are for hosts, which are to be named; network %s names none", mode)
	}
}

// secrets settles which credentials are added to requests. Each is a grant of its own: whoever runs code with one lets it act in his name.
func (d *decision) secrets() {
	hosts := d.rules("hosts", d.plan.Hosts)
	for _, text := range d.req.Secrets {
		s, err := egress.ParseSecret(text)
		if err != nil {
			d.fault("%v", err)
			continue
		}
		where := fmt.Sprintf("%s:%d", s.Host, s.Port)
		named := func(r egress.Rule) bool { return r.Names(s.Host) && r.Port == s.Port }
		if !slices.ContainsFunc(hosts, named) {
			d.fault("secret %s is for %s, which is not among the hosts that the program may reach; add %s to them", s.Name, where, where)
			continue
		}
		if slices.ContainsFunc(hosts, func(r egress.Rule) bool { return named(r) && r.Protocol == egress.TCP }) {
			d.fault("secret %s is for %s, where anything may be spoken (tcp:); leave tcp: out", s.Name, where)
			continue
		}
		placeholder := s.Name + "=" + s.Placeholder()
		if slices.ContainsFunc(d.plan.Env, func(e string) bool { return strings.HasPrefix(e, s.Name+"=") && e != placeholder }) {
			d.fault("the variable %s is set and is to be a secret; give the secret another name, or leave the variable out", s.Name)
			continue
		}
		if slices.Contains(d.plan.Egress.Secrets, s.String()) {
			continue
		}
		if !d.invokers() && !slices.Contains(d.owner.Secrets, s.Name) { // one that is declared is there; who asks must not learn of others
			d.deny(RuleSecret, fmt.Sprintf("the owner can add it to the configuration: egress: secrets: {%s: /path}", s.Name), "the owner has no secret %s for others", s.Name)
			continue
		}
		d.widen(RuleSecret, "secret "+s.String(), "no secret")
		d.plan.Egress.Secrets = append(d.plan.Egress.Secrets, s.String())
		if !slices.Contains(d.plan.Env, placeholder) { // one secret may be for several hosts
			d.plan.Env = append(d.plan.Env, placeholder)
		}
	}
	if len(d.plan.Egress.Secrets) == 0 {
		return
	}
	for _, name := range bundleVariables {
		if !slices.ContainsFunc(d.plan.Env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			d.plan.Env = append(d.plan.Env, name+"="+Bundle)
		}
	}
	slices.Sort(d.plan.Env)
}

// Bundle has the certificate authorities that programs in an image trust. With secrets it has one more: this run's own.
const Bundle = "/etc/ssl/certs/ca-certificates.crt"

// bundleVariables lead programs to Bundle that bring a list of their own: OpenSSL's, Python's requests, Node.js.
var bundleVariables = []string{"SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"}

// service lets the profile's one service through, which is no network: the program finds it in a variable, and nothing else.
func (d *decision) service() {
	if d.prof.Service == nil {
		return
	}
	s, err := d.prof.Service.Endpoint()
	if err != nil {
		d.fault("profile %s: %v", d.prof.Name, err)
		return
	}
	d.plan.Hosts = []string{s.Rule.String()}
	d.plan.Egress = d.egress()
	maps.DeleteFunc(d.plan.Egress.Addrs, func(name, _ string) bool { return !s.Rule.Names(name) })
	if s.Addr.IsValid() { // named by the owner
		target := egress.Rule{Prefix: netip.PrefixFrom(s.Addr, s.Addr.BitLen()), Port: s.Rule.Port}
		d.plan.Egress.Addrs[s.Rule.Name] = s.Addr.String()
		if !slices.Contains(d.plan.Egress.Targets, target.Target()) {
			d.plan.Egress.Targets = append(d.plan.Egress.Targets, target.Target())
		}
	}
	d.plan.Env = slices.DeleteFunc(d.plan.Env, func(e string) bool { return strings.HasPrefix(e, d.prof.Service.Variable+"=") })
	d.plan.Env = append(d.plan.Env, d.prof.Service.Variable+"="+s.URL)
	slices.Sort(d.plan.Env)
}

// egress is what the owner says about addresses.
func (d *decision) egress() *Egress {
	e := &Egress{Addrs: maps.Clone(d.owner.Addrs), Targets: slices.Clone(d.owner.Targets), OnRefused: or(d.prof.OnRefused, profile.RefusedGoesOn)}
	if e.Addrs == nil {
		e.Addrs = map[string]string{}
	}
	if e.Targets == nil {
		e.Targets = []string{}
	}
	return e
}

// hosts settles which hosts are reachable: those that are asked for, or else the profile's own.
func (d *decision) hosts() {
	own := d.rules("profile "+d.prof.Name, d.prof.Hosts)
	granted := d.rules("grants: hosts", d.owner.Hosts)
	asked := d.req.Hosts
	if len(asked) == 0 {
		asked = d.prof.Hosts
	}
	if len(asked) == 0 {
		d.fault("network allowlist names no host:port")
	}
	var rules []egress.Rule
	for _, text := range asked {
		rule, err := egress.ParseRule(text)
		if err != nil {
			d.fault("%v", err)
			continue
		}
		text = rule.String()
		if slices.Contains(d.plan.Hosts, text) || !d.reachable(rule) {
			continue
		}
		covers := func(r egress.Rule) bool { return r.Covers(rule) }
		switch {
		case slices.ContainsFunc(own, covers):
		case slices.ContainsFunc(granted, covers):
			d.plan.Grants = append(d.plan.Grants, "network "+text+" (config)")
		default:
			d.widen(RuleNetwork, "network "+text, "network "+d.prof.Network)
		}
		d.plan.Hosts = append(d.plan.Hosts, text)
		rules = append(rules, rule)
	}
	// The plan has the names that it is about, not all that the owner has.
	maps.DeleteFunc(d.plan.Egress.Addrs, func(name, _ string) bool {
		return !slices.ContainsFunc(rules, func(r egress.Rule) bool { return r.Names(name) })
	})
}

func (d *decision) rules(where string, texts []string) (rules []egress.Rule) {
	for _, text := range texts {
		rule, err := egress.ParseRule(text)
		if err != nil {
			d.fault("%s: %v", where, err)
			continue
		}
		rules = append(rules, rule)
	}
	return rules
}

// reachable refuses rules with addresses that nothing leads to, or that only the owner may name: the invoker of the local command line
// is one, whose address is a target of this plan.
func (d *decision) reachable(rule egress.Rule) bool {
	if rule.Name == "localhost" || strings.HasSuffix(rule.Name, ".localhost") { // RFC 6761 section 6.3
		d.fault("host %q is the sandbox itself; give a service of this host another name: egress: {hosts: {api.test: 127.0.0.1}, targets: [\"127.0.0.1/32:%d\"]} in the configuration, and api.test:%d here", rule, rule.Port, rule.Port)
		return false
	}
	if !rule.Prefix.IsValid() {
		return true
	}
	what := egress.SpecialPrefix(rule.Prefix)
	own := rule.Prefix.IsSingleIP() || what != ""
	switch {
	case rule.Prefix.Addr().IsLoopback():
		d.fault("host %q is a loopback address, which in a sandbox is the sandbox's own; give this host's a name: %s", rule, loopbackWay(rule))
		return false
	case d.invokers() && own:
		d.plan.Egress.Targets = append(d.plan.Egress.Targets, rule.Target())
	case what != "" && !slices.ContainsFunc(d.rules("egress: targets", d.plan.Egress.Targets), func(t egress.Rule) bool { return t.Reaches(rule) }):
		d.deny(RuleNetwork, fmt.Sprintf("the owner can add egress: targets: [%q] to the configuration", rule.Target()), "%s is %s", rule, what)
		return false
	}
	return true
}

// loopbackWay is how a service of this host is reached.
func loopbackWay(rule egress.Rule) string {
	addr := rule.Prefix.Addr().String()
	if strings.Contains(addr, ":") {
		addr = fmt.Sprintf("%q", addr)
	}
	return fmt.Sprintf("egress: {hosts: {api.test: %s}, targets: [%q]} in the configuration, and api.test:%d here", addr, rule.Target(), rule.Port)
}

// grantsHosts is what the owner can do besides approving a run with hosts.
func (d *decision) grantsHosts() string {
	if len(d.plan.Hosts) == 0 {
		return ""
	}
	return ", or to allow the hosts for all runs by grants: hosts in the configuration"
}

package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// Owner is what the owner of the host says of names and addresses.
type Owner struct {
	Hosts   map[string]netip.Addr // names that lead to an address of his, instead of to what a resolver says; lower case
	Targets []Rule                // addresses with ports that names may lead to though they are not of the public internet
}

// Config is one sandbox's way out.
type Config struct {
	Open  bool   // the public internet, beside the rules
	Rules []Rule // names and addresses that may be reached
	Owner Owner
	Own   []netip.Addr // the host's own addresses, which are not of the public internet whatever their numbers

	// Resolve finds the addresses of a name, of both kinds. It is asked when a connection is made, and in an open network for each
	// query, never for a name that no rule has.
	Resolve func(ctx context.Context, name string) ([]netip.Addr, error)
}

// Where names seem to be, seen from a sandbox: ranges for benchmarks, which nobody has (RFC 2544, RFC 5180).
var (
	synthetic4 = netip.MustParsePrefix("198.18.0.0/15")
	synthetic6 = netip.MustParsePrefix("2001:2::/48")
)

// Gateway is the address of the gateway in a sandbox's network: its router, and its resolver at port 53. Sandbox is the sandbox's.
var (
	Gateway4 = netip.MustParseAddr("198.18.0.1")
	Sandbox4 = netip.MustParseAddr("198.18.0.2")
	Gateway6 = netip.MustParseAddr("2001:2::1")
	Sandbox6 = netip.MustParseAddr("2001:2::2")
)

// firstName is the number of the first address that stands for a name.
const firstName = 256

// maxNames bounds the names that one sandbox learns of, through wildcards and an open network: one more is not resolved.
const maxNames = 16384

// Table is what one sandbox may reach. It is safe for concurrent use.
type Table struct {
	cfg Config

	mu    sync.Mutex
	names []string
	index map[string]int
}

// New makes a sandbox's table.
func New(cfg Config) *Table { return &Table{cfg: cfg, index: map[string]int{}} }

// Refusal says why something is not reached.
type Refusal struct {
	Rule   string // short and fixed, for audit: "name", "port", "address", "protocol"
	Reason string
}

func (r *Refusal) Error() string { return r.Reason }

func refuse(rule, format string, args ...any) error {
	return &Refusal{Rule: rule, Reason: fmt.Sprintf(format, args...)}
}

// Refusals are of these kinds.
const (
	RefusedName        = "name"        // no rule has it
	RefusedPort        = "port"        // rules have the name, with other ports
	RefusedAddress     = "address"     // where it is or leads to
	RefusedProtocol    = "protocol"    // what the client says is not what the rule has
	RefusedUDP         = "udp"         // a datagram, to whomever
	RefusedConnections = "connections" // the sandbox has as many as it may
)

// Kinds are all kinds of refusals. `silk selftest` is held to them: one that no attack needs fails the build. The caller must not change
// them.
func Kinds() []string { return kinds }

var kinds = []string{RefusedName, RefusedPort, RefusedAddress, RefusedProtocol, RefusedUDP, RefusedConnections}

// Target is what a connection of a sandbox is to reach.
type Target struct {
	Name     string     // as the sandbox has looked it up; "" for an address
	Addr     netip.Addr // of a target without a name
	Port     uint16
	Protocol Protocol // what the client has to speak
}

// Host is the target's name or address.
func (t Target) Host() string {
	if t.Name != "" {
		return t.Name
	}
	return t.Addr.String()
}

// Destination says what a connection to an address in the sandbox's network is to reach. The error is a [*Refusal].
func (t *Table) Destination(at netip.AddrPort) (Target, error) {
	addr, port := at.Addr().Unmap(), at.Port()
	if name, ok := t.Name(addr); ok {
		return t.named(name, port)
	}
	target := Target{Addr: addr, Port: port, Protocol: TCP}
	err := t.check(target, addr)
	if !t.cfg.Open && !has(t.cfg.Rules, addr, port) {
		err = refuse(RefusedAddress, "no rule has the address %s with port %d", addr, port)
	}
	if err := t.InForce(err); err != nil {
		return Target{}, err
	}
	return target, nil
}

// has says whether a rule with addresses has this one. Port 0, of a look-up, is any.
func has(rules []Rule, addr netip.Addr, port uint16) bool {
	return slices.ContainsFunc(rules, func(r Rule) bool {
		return r.Prefix.IsValid() && r.Prefix.Contains(addr) && (r.Port == port || port == 0)
	})
}

// named is the target behind a name that was looked up.
func (t *Table) named(name string, port uint16) (Target, error) {
	target := Target{Name: name, Port: port}
	var ports []string
	var found []Protocol
	for _, r := range t.cfg.Rules {
		switch {
		case !r.Names(name):
		case r.Port == port:
			found = append(found, r.Protocol)
		default:
			ports = append(ports, fmt.Sprint(r.Port))
		}
	}
	switch {
	case slices.Contains(found, TCP): // one rule that lets anything through is enough
		target.Protocol = TCP
	case slices.Contains(found, Any), slices.Contains(found, TLS) && slices.Contains(found, HTTP):
	case len(found) > 0:
		target.Protocol = found[0]
	case t.cfg.Open:
		target.Protocol = TCP
	default:
		err := refuse(RefusedName, "no rule has the name %s", name)
		if len(ports) > 0 {
			err = refuse(RefusedPort, "%s is allowed with port %s only", name, strings.Join(ports, ", "))
		}
		if err := t.InForce(err); err != nil {
			return Target{}, err
		}
		target.Protocol = TCP
	}
	return target, nil
}

// Plain says whether a rule for a target's name and port lets it be spoken to by HTTP in the clear, in so many words.
func (t *Table) Plain(target Target) bool {
	return slices.ContainsFunc(t.cfg.Rules, func(r Rule) bool { return r.Protocol == HTTP && r.Port == target.Port && r.Names(target.Name) })
}

// ruled says whether a rule has a name.
func (t *Table) ruled(name string) bool {
	return slices.ContainsFunc(t.cfg.Rules, func(r Rule) bool { return r.Names(name) })
}

// Addresses finds where a target is, and leaves only what may be dialled, in the resolver's order. The error is a [*Refusal], or that of
// the resolver.
func (t *Table) Addresses(ctx context.Context, target Target) ([]netip.AddrPort, error) {
	if target.Name == "" {
		return []netip.AddrPort{netip.AddrPortFrom(target.Addr, target.Port)}, nil // Destination has checked it
	}
	var found []netip.Addr
	if addr, ok := t.cfg.Owner.Hosts[target.Name]; ok {
		found = []netip.Addr{addr}
	} else {
		var err error
		if found, err = t.cfg.Resolve(ctx, target.Name); err != nil {
			return nil, fmt.Errorf("resolve %s: %w", target.Name, err)
		}
	}
	var may []netip.AddrPort
	var refused error
	for _, addr := range found {
		if err := t.InForce(t.check(target, addr)); err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		may = append(may, netip.AddrPortFrom(addr.Unmap(), target.Port))
	}
	switch {
	case len(may) > 0:
		return may, nil
	case refused != nil:
		return nil, refuse(RefusedAddress, "%v", refused)
	}
	return nil, fmt.Errorf("resolve %s: it has no address", target.Name)
}

// check says whether a target may be at an address: it is of the public internet, or the owner's. The error is a [*Refusal].
func (t *Table) check(target Target, addr netip.Addr) error {
	addr = addr.Unmap()
	what := t.special(addr)
	if what == "" || has(t.cfg.Owner.Targets, addr, target.Port) {
		return nil
	}
	where := addr.String() + " is"
	if target.Name != "" {
		where = fmt.Sprintf("%s leads to %s, which is", target.Name, addr)
	}
	line := Rule{Prefix: netip.PrefixFrom(addr, addr.BitLen()), Port: target.Port}
	return refuse(RefusedAddress, "%s %s; egress: targets: [%q] in the configuration allows it", where, what, line.Target())
}

// special is [Special], for this host.
func (t *Table) special(addr netip.Addr) string {
	what := Special(addr)
	if what == "" && slices.Contains(t.cfg.Own, addr.Unmap()) {
		return "an address of this host"
	}
	return what
}

// addressOf is where a name seems to be; ok is false if there are too many names.
func (t *Table) addressOf(name string) (v4, v6 netip.Addr, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i, known := t.index[name]
	if !known {
		if len(t.names) == maxNames {
			return v4, v6, false
		}
		i = len(t.names)
		t.names, t.index[name] = append(t.names, name), i
	}
	n := uint32(firstName + i)
	b4, b6 := synthetic4.Addr().As4(), synthetic6.Addr().As16()
	binary.BigEndian.PutUint32(b4[:], binary.BigEndian.Uint32(b4[:])+n)
	binary.BigEndian.PutUint32(b6[12:], n)
	return netip.AddrFrom4(b4), netip.AddrFrom16(b6), true
}

// Name is the name that an address stands for, seen from the sandbox.
func (t *Table) Name(addr netip.Addr) (string, bool) {
	var n uint32
	switch {
	case synthetic4.Contains(addr):
		b, base := addr.As4(), synthetic4.Addr().As4()
		n = binary.BigEndian.Uint32(b[:]) - binary.BigEndian.Uint32(base[:])
	case synthetic6.Contains(addr):
		b, base := addr.As16(), synthetic6.Addr().As16()
		if [12]byte(b[:12]) != [12]byte(base[:12]) {
			return "", false
		}
		n = binary.BigEndian.Uint32(b[12:])
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if n < firstName || int(n-firstName) >= len(t.names) {
		return "", false
	}
	return t.names[n-firstName], true
}

package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/silk-sandbox/silk/profile"
)

// width orders the network modes from the narrowest on.
var width = map[string]int{profile.NetworkDeny: 0, profile.NetworkLoopback: 1, profile.NetworkAllowlist: 2, profile.NetworkAllow: 3}

const noGateway = "this version has no egress gateway, and nothing but loopback can be kept inside without one"

// network settles the mode. Wider than the profile's it needs a grant; allowlist and allow are decided and then refused,
// since nothing in this version could hold a program to them.
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
	if mode != profile.NetworkAllowlist && len(d.req.Hosts) > 0 {
		d.fault("network %s takes no hosts; name them without it", mode)
	}
	d.plan.Network = mode

	switch mode {
	case profile.NetworkAllowlist:
		d.hosts()
		d.deny(RuleNetwork, d.offline(), "hosts cannot be reached: %s", noGateway)
	case profile.NetworkAllow:
		// Never by a flag alone, whoever gives it: an approval names this plan.
		d.plan.Grants = append(d.plan.Grants, "network allow (approval)")
		d.approval = append(d.approval, "network allow")
		d.deny(RuleNetwork, d.offline(), "the internet cannot be reached: %s", noGateway)
	default:
		if rank > ceiling {
			d.widen(RuleNetwork, "network "+mode, d.prof.Network)
		}
	}
}

// offline is what can be done where no network is to be had.
func (d *decision) offline() string {
	return d.words("use --net deny or --net loopback", "ask for network deny or loopback")
}

func (d *decision) hosts() {
	if len(d.req.Hosts) == 0 {
		d.fault("network allowlist names no host:port")
	}
	for _, rule := range d.req.Hosts {
		if err := checkHost(rule); err != nil {
			d.fault("%v", err)
			continue
		}
		d.plan.Hosts = append(d.plan.Hosts, rule)
		if slices.Contains(d.owner.Hosts, rule) {
			d.plan.Grants = append(d.plan.Grants, "network "+rule+" (config)")
			continue
		}
		d.widen(RuleNetwork, "network "+rule, "what the owner's grants name")
	}
}

// checkHost accepts [tcp:|tls:|http:]host:port, where host is a name or an IP address (IPv6 in brackets).
func checkHost(rule string) error {
	rest := rule
	for _, prefix := range []string{"tcp:", "tls:", "http:"} {
		if after, ok := strings.CutPrefix(rule, prefix); ok {
			rest = after
			break
		}
	}
	i := strings.LastIndexByte(rest, ':')
	if i < 0 {
		return fmt.Errorf("host %q has no port; write host:443", rule)
	}
	host, port := rest[:i], rest[i+1:]
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("host %q has the port %q, which is not a number from 1 to 65535", rule, port)
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		if addr, err := netip.ParseAddr(inner); !ok || err != nil || !addr.Is6() || addr.Zone() != "" {
			return fmt.Errorf("host %q is not an IPv6 address in brackets", rule)
		}
		return nil
	}
	if !hostName(host) {
		return fmt.Errorf("host %q is not a host name or address", rule)
	}
	return nil
}

// hostName says whether s is a host name as RFC 1123 section 2.1 has it, or an IPv4 address, which looks like one.
func hostName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
				return false
			}
		}
	}
	return true
}

package auth

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// Origins are the web pages and apps whose scripts may talk to the service. A browser says in the Origin header for whom
// it asks (RFC 6454, Fetch standard); other programs send none and prove who they are otherwise. The zero Origins has
// none, so no browser gets through.
type Origins struct {
	exact   map[string]bool
	anyPort map[string]bool // "http://localhost" for the entry http://localhost:*
}

// origin is a serialized one as browsers send it: lower case, no path. Which host it is is checked further.
var origin = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::([1-9][0-9]{0,4}))?$`)

// loopback are the hosts whose entries may have any port. Whoever controls a page on one runs programs on this machine.
var loopback = map[string]bool{"localhost": true, "127.0.0.1": true, "[::1]": true}

// ParseOrigins reads the owner's entries: "https://notes.example.org", "app://obsidian.md", "capacitor://localhost", a port
// where it is not the scheme's own, "http://localhost:*" for any port of this machine, or "null" for pages without an
// origin, such as files: any of them, so better not. They must be as browsers write them; the error names all that are not,
// and how they should be.
func ParseOrigins(entries []string) (Origins, error) {
	o := Origins{exact: map[string]bool{}, anyPort: map[string]bool{}}
	var faults []error
	for _, entry := range entries {
		base, anyPort := strings.CutSuffix(entry, ":*")
		_, host, port, err := split(base)
		switch {
		case entry == "null":
			o.exact[entry] = true
		case err != nil:
			if meant := asWritten(base); meant != "" {
				err = fmt.Errorf("is not as browsers write it; write %s", meant)
			}
			faults = append(faults, fmt.Errorf("origin %q %w", entry, err))
		case anyPort && (!loopback[host] || port != ""):
			faults = append(faults, fmt.Errorf("origin %q: only localhost, 127.0.0.1 and [::1] may have any port", entry))
		case anyPort:
			o.anyPort[base] = true
		default:
			o.exact[entry] = true
		}
	}
	if len(faults) > 0 {
		return Origins{}, errors.Join(faults...)
	}
	return o, nil
}

// Allowed says whether a request with these values of its Origin header may go on: those without one, which no browser sent
// for a script of another page, and those with exactly one that is on the list.
func (o Origins) Allowed(values []string) bool {
	switch len(values) {
	case 0:
		return true
	case 1:
		return o.has(values[0])
	}
	return false
}

func (o Origins) has(value string) bool {
	if o.exact[value] {
		return true
	}
	scheme, host, _, err := split(value)
	return err == nil && o.anyPort[scheme+"://"+host]
}

// split takes an origin apart, or says what keeps value from being one as browsers write it.
func split(value string) (scheme, host, port string, err error) {
	m := origin.FindStringSubmatch(value)
	if m == nil {
		return "", "", "", errors.New("is not scheme://host or scheme://host:port")
	}
	scheme, host, port = m[1], m[2], m[3]
	if n, _ := strconv.Atoi(port); n > 65535 {
		return "", "", "", errors.New("has a port above 65535")
	}
	if port != "" && port == defaultPort[scheme] {
		return "", "", "", errors.New("has the port that browsers leave out")
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner = strings.TrimSuffix(inner, "]")
		switch addr, err := netip.ParseAddr(inner); {
		case err != nil || !addr.Is6():
			return "", "", "", errors.New("has an address that is none")
		case addr.String() != inner && !addr.Is4In6(): // of those, browsers write the last four bytes otherwise than netip
			return "", "", "", errors.New("has an address that is not written as short as it can be")
		}
	}
	return scheme, host, port, nil
}

// asWritten is the origin of an address as browsers write it, or "".
func asWritten(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	scheme, host := strings.ToLower(u.Scheme), strings.ToLower(u.Hostname())
	if addr, err := netip.ParseAddr(host); err == nil && addr.Is6() {
		host = "[" + addr.String() + "]"
	}
	meant := scheme + "://" + host
	if port := u.Port(); port != "" && port != defaultPort[scheme] {
		meant += ":" + port
	}
	if _, _, _, err := split(meant); err != nil {
		return ""
	}
	return meant
}

// defaultPort has the ports that browsers leave out (URL standard, "special scheme").
var defaultPort = map[string]string{"http": "80", "https": "443", "ws": "80", "wss": "443", "ftp": "21"}

// Hosts are the names under which the service may be asked for. A page of evil.example whose name is made to lead to this
// machine (DNS rebinding) is, for the browser, of the same origin as the service, and sends no Origin with what it reads; but it
// cannot change the Host header, which is evil.example. The zero Hosts has localhost and all addresses: rebinding needs a
// name.
type Hosts struct{ names map[string]bool }

// NewHosts makes one that has these names too.
func NewHosts(names ...string) Hosts {
	h := Hosts{map[string]bool{}}
	for _, name := range names {
		h.names[plainHost(name)] = true
	}
	return h
}

// Allowed says whether a request with this Host header, with or without a port, may go on.
func (h Hosts) Allowed(host string) bool {
	name := host
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		if _, err := strconv.ParseUint(host[i+1:], 10, 16); err != nil {
			return false
		}
		name = host[:i]
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return ok && err == nil && addr.Is6()
	}
	if addr, err := netip.ParseAddr(name); err == nil {
		return addr.Is4()
	}
	name = plainHost(name)
	return name == "localhost" || h.names[name]
}

// plainHost is a name without what makes no difference: case, and the dot of the root.
func plainHost(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

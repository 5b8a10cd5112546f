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
		base, star := strings.CutSuffix(entry, ":*")
		switch err := checkOrigin(base); {
		case err != nil && entry != "null":
			faults = append(faults, fmt.Errorf("origin %q %w", entry, err))
		case star && (!loopback[hostOf(base)] || strings.Contains(strings.TrimPrefix(base, origin.FindStringSubmatch(base)[1]+"://"+hostOf(base)), ":")):
			faults = append(faults, fmt.Errorf("origin %q: only localhost, 127.0.0.1 and [::1] may have any port", entry))
		case star:
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
	if checkOrigin(value) != nil {
		return false
	}
	m := origin.FindStringSubmatch(value)
	return o.anyPort[m[1]+"://"+m[2]]
}

func hostOf(value string) string {
	if m := origin.FindStringSubmatch(value); m != nil {
		return m[2]
	}
	return ""
}

// checkOrigin says what keeps value from being an origin as browsers write it.
func checkOrigin(value string) error {
	m := origin.FindStringSubmatch(value)
	if m == nil {
		if u, err := url.Parse(value); err == nil && u.Scheme != "" && u.Host != "" {
			fixed := strings.ToLower(u.Scheme + "://" + u.Host)
			if fixed != value && checkOrigin(fixed) == nil {
				return fmt.Errorf("is not as browsers write it; write %s", fixed)
			}
		}
		return errors.New("is not scheme://host or scheme://host:port")
	}
	scheme, host, port := m[1], m[2], m[3]
	if n, _ := strconv.Atoi(port); n > 65535 {
		return errors.New("has a port above 65535")
	}
	if port == defaultPort[scheme] && port != "" {
		return fmt.Errorf("is not as browsers write it; write %s://%s", scheme, host)
	}
	if host[0] == '[' {
		addr, err := netip.ParseAddr(host[1 : len(host)-1])
		if err != nil || !addr.Is6() {
			return errors.New("has an address that is none")
		}
		if plain := "[" + addr.String() + "]"; plain != host && !addr.Is4In6() {
			return fmt.Errorf("is not as browsers write it; the host is %s", plain)
		}
	}
	return nil
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

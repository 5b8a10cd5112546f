package profile

import (
	"fmt"
	"net/netip"
	"net/url"
	"strconv"

	"github.com/silk-sandbox/silk/egress"
)

// Endpoint is a service as a sandbox reaches it.
type Endpoint struct {
	Rule egress.Rule
	Addr netip.Addr // where Rule's name leads; not valid: where the resolver says
	URL  string     // as the sandbox has it
}

// serviceName stands for a service that the owner gives by its address: in a sandbox 127.0.0.1 is the sandbox's own.
const serviceName = "service.silk.internal"

// Endpoint says how the service is reached.
func (s Service) Endpoint() (e Endpoint, err error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return e, fmt.Errorf("service: url %q is not http://HOST:PORT or https://HOST:PORT, perhaps with a path", s.URL)
	}
	protocol, port := egress.HTTP, uint64(80)
	if u.Scheme == "https" {
		protocol, port = egress.TLS, 443
	}
	if u.Port() != "" {
		if port, err = strconv.ParseUint(u.Port(), 10, 16); err != nil {
			return e, fmt.Errorf("service: url %q has no port that there is", s.URL)
		}
	}
	host := u.Hostname()
	if host == "localhost" { // this host's, not the sandbox's
		host = "127.0.0.1"
	}
	if e.Addr, err = netip.ParseAddr(host); err == nil {
		if protocol == egress.TLS {
			return e, fmt.Errorf("service: url %q has an address, for which nobody has a certificate; give it a name, and lead it there with egress: hosts", s.URL)
		}
		host = serviceName
	}
	if e.Rule, err = egress.ParseRule(fmt.Sprintf("%s:%s:%d", protocol, host, port)); err != nil {
		return e, fmt.Errorf("service: url %q: %w", s.URL, err)
	}
	u.Host = fmt.Sprintf("%s:%d", host, port)
	e.URL = u.String()
	return e, nil
}

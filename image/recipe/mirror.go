package recipe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// ErrNoMirror is in the error of a build that must download and does not know where from.
var ErrNoMirror = errors.New("no Debian archive is known: name one with --mirror URL, SILK_MIRROR or `mirror:` in the configuration file")

// mirror is the Debian archive that this host uses, found when it is first needed.
type mirror struct {
	config Config
	client *http.Client
	suite  string

	once  sync.Once
	found source
	err   error
}

// source returns the archive. It asks each candidate for its release file, so it needs the network.
func (m *mirror) source(ctx context.Context) (source, error) {
	m.once.Do(func() { m.found, m.err = m.discover(ctx) })
	return m.found, m.err
}

func (m *mirror) discover(ctx context.Context) (source, error) {
	if m.config.Mirror != "" {
		s := source{uri: strings.TrimRight(m.config.Mirror, "/")}
		u, err := url.Parse(s.uri)
		if err != nil || u.Scheme != "file" && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
			return source{}, fmt.Errorf("mirror %q is not an http, https or file URL", m.config.Mirror)
		}
		if err := m.probe(ctx, s); err != nil {
			return source{}, fmt.Errorf("mirror %s: %w", redact(s.uri), err)
		}
		return s, nil
	}
	candidates, err := aptSources(m.config.AptDir)
	if err != nil {
		return source{}, err
	}
	var errs []error
	tried := map[string]bool{}
	for _, s := range candidates {
		if tried[s.uri] {
			continue
		}
		tried[s.uri] = true
		err := m.probe(ctx, s)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return source{}, context.Cause(ctx)
		}
		errs = append(errs, fmt.Errorf("%s: %w", redact(s.uri), err))
	}
	if len(errs) == 0 {
		return source{}, fmt.Errorf("%s lists no archive over http, https or file: %w", m.config.AptDir, ErrNoMirror)
	}
	return source{}, fmt.Errorf("no archive in %s has Debian %s (%w): %w", m.config.AptDir, m.suite, errors.Join(errs...), ErrNoMirror)
}

// maxReleaseBytes bounds a release file; Debian's are 150 KB.
const maxReleaseBytes = 1 << 20

// probe tells whether s is a Debian archive that has the suite. That its packages are genuine is not asked here: every
// file is compared with the lock.
func (m *mirror) probe(ctx context.Context, s source) error {
	address := s.uri + "/dists/" + m.suite + "/InRelease"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return unwrapURL(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("dists/%s/InRelease: %s", m.suite, resp.Status)
	}
	lines := bufio.NewScanner(io.LimitReader(resp.Body, maxReleaseBytes))
	for lines.Scan() {
		if lines.Text() == "Origin: Debian" {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("dists/%s/InRelease: %w", m.suite, err)
	}
	return errors.New("not a Debian archive")
}

// redact hides a password in a URL that is shown.
func redact(address string) string {
	if u, err := url.Parse(address); err == nil {
		return u.Redacted()
	}
	return "an address that cannot be read"
}

// unwrapURL takes the address out of a client error: it may hold a password, and callers name what they fetch.
func unwrapURL(err error) error {
	var with *url.Error
	if errors.As(err, &with) {
		return with.Err
	}
	return err
}

// archiveClient is an HTTP client for the Debian archive: through apt's proxy if its configuration names one (see
// apt-transport-http(1)), else through config.Proxy.
func archiveClient(config Config) (*http.Client, error) {
	settings, err := aptSettings(config.AptDir)
	if err != nil {
		return nil, err
	}
	return client(func(req *http.Request) (*url.URL, error) {
		scheme, host := req.URL.Scheme, req.URL.Hostname()
		for _, key := range []string{"Acquire::" + scheme + "::Proxy::" + host, "Acquire::" + scheme + "::Proxy", "Acquire::http::Proxy"} {
			switch value, ok := lookup(settings, key); {
			case !ok || value == "" || value == "false":
			case strings.EqualFold(value, "DIRECT"):
				return nil, nil
			default:
				return url.Parse(value)
			}
		}
		if config.Proxy == nil {
			return nil, nil
		}
		return config.Proxy(req)
	}), nil
}

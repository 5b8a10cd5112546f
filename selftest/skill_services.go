package selftest

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
)

// SkillServices are two services of this host: one that may be a skill's, and one that it must not reach. They answer [SkillEffect].
type SkillServices struct {
	service, other *skillService
}

// skillService is one of them.
type skillService struct {
	server *http.Server
	url    string
	asked  atomic.Int64
}

// OpenSkillServices starts both on loopback. The caller closes them.
func OpenSkillServices() (_ *SkillServices, err error) {
	s := &SkillServices{}
	if s.service, err = openSkillService(); err != nil {
		return nil, err
	}
	if s.other, err = openSkillService(); err != nil {
		return nil, errors.Join(err, s.service.server.Close())
	}
	return s, nil
}

func openSkillService() (*skillService, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, fmt.Errorf("open a service for skills: %w", err)
	}
	s := &skillService{url: "http://" + l.Addr().String()}
	s.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.asked.Add(1)
		fmt.Fprint(w, SkillEffect)
	})}
	go func() { _ = s.server.Serve(l) }() // Close ends it
	return s, nil
}

// Close ends both.
func (s *SkillServices) Close() error {
	return errors.Join(s.service.server.Close(), s.other.server.Close())
}

// Host is what placeholders stand for.
func (s *SkillServices) Host() SkillHost {
	u, err := url.Parse(s.other.url)
	if err != nil {
		panic(err) // it is made above
	}
	return SkillHost{Service: s.service.url, Other: s.other.url, Inside: "http://service.silk.internal:" + u.Port()}
}

// Taken are the requests since the last call: those to the service at a URL, and all others.
func (s *SkillServices) Taken(url string) (asked, others int) {
	for _, one := range []*skillService{s.service, s.other} {
		n := int(one.asked.Swap(0))
		if one.url == url {
			asked += n
		} else {
			others += n
		}
	}
	return asked, others
}

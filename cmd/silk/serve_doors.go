//go:build server

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/silk-sandbox/silk/httpapi"
	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/internal/peer"
)

// door is one listener and what answers there.
type door struct {
	net.Listener

	server *http.Server
}

// listen opens all doors or none: those that systemd passed, else the socket and the port of the configuration.
func (s *service) listen() (doors []door, err error) {
	defer func() {
		if err != nil {
			for _, d := range doors {
				err = errors.Join(err, d.Close())
			}
		}
	}()
	unix, ports, err := passed()
	if err != nil {
		return nil, err
	}
	for _, l := range unix {
		doors = append(doors, s.socket(peer.Check(l)))
	}
	if len(unix)+len(ports) == 0 {
		l, err := peer.Listen(s.cfg.socketPath(s.host.home))
		if err != nil {
			return doors, err
		}
		doors = append(doors, s.socket(l))
		if s.cfg.listen == "" || !s.cfg.roles.api {
			return doors, nil
		}
		if l, err = net.Listen("tcp", s.cfg.listen); err != nil { //nolint:noctx // it does not wait
			return doors, fmt.Errorf("%w (serve: listen: of the configuration is HOST:PORT, another one, or \"\" for the socket alone)", err)
		}
		ports = append(ports, l)
	}
	for _, l := range ports {
		d, err := s.port(l)
		doors = append(doors, d)
		if err != nil {
			return doors, err
		}
	}
	return doors, nil
}

// socket is the door for the owner, who needs no token there.
func (s *service) socket(l net.Listener) door {
	s.log.Info("listening", "socket", l.Addr().String())
	return door{httpapi.Limit(l, httpapi.MaxConnections), httpapi.Local(httpapi.HTTPServer(s.http))}
}

// port is the door for everybody else.
func (s *service) port(l net.Listener) (door, error) {
	d := door{httpapi.Limit(l, httpapi.MaxConnections), httpapi.HTTPServer(s.http)}
	if !s.cfg.tls {
		if !loopback(l.Addr()) {
			return d, fmt.Errorf("listen on %s: others could read tokens and output on the way; configure serve: tls, or listen on 127.0.0.1", l.Addr())
		}
		s.log.Info("listening", "address", l.Addr().String())
		return d, nil
	}
	config, fingerprint, err := s.tlsConfig()
	if err != nil {
		return d, err
	}
	d.Listener = tls.NewListener(d.Listener, config)
	s.log.Info("listening", "address", l.Addr().String(), "fingerprint", fingerprint)
	return d, nil
}

func loopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// drainTimeout is how long answers may take once the server stops; streams are told to come again at once.
const drainTimeout = 5 * time.Second

// answer answers at a door until ctx ends.
func (s *service) answer(ctx context.Context, d door) error {
	d.server.ErrorLog = slog.NewLogLogger(s.log.Handler(), slog.LevelWarn)
	served := make(chan error, 1)
	go func() { served <- d.server.Serve(d.Listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", d.Addr(), err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := d.server.Shutdown(end)
	if errors.Is(err, context.DeadlineExceeded) {
		err = d.server.Close()
	}
	if served := <-served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		s.log.Warn("close a door", logkey.Error, err)
	}
	return nil
}

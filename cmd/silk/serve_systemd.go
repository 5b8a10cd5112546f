//go:build server

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/coreos/go-systemd/v22/daemon"
)

// passed returns the listeners that systemd made for us (sd_listen_fds(3)): unix sockets and ports, each as it would be in the
// configuration. Without any it returns none.
func passed() (unix, ports []net.Listener, err error) {
	listeners, err := activation.Listeners()
	if err != nil {
		return nil, nil, fmt.Errorf("take over systemd's sockets: %w", err)
	}
	for _, l := range listeners {
		switch l.(type) {
		case *net.UnixListener:
			unix = append(unix, l)
		case *net.TCPListener:
			ports = append(ports, l)
		default:
			return nil, nil, errors.New("take over systemd's sockets: one is neither a unix stream nor TCP")
		}
	}
	return unix, ports, nil
}

// notify tells systemd how the service is, if it listens (sd_notify(3)). That it cannot be told is no reason to stop.
func (s *service) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("tell systemd", "state", state, "error", err)
	}
}

// watchdog tells systemd that the service lives, twice as often as it wants to hear it (sd_watchdog_enabled(3)), as long as the
// database answers: a service that cannot write is better started again.
func (s *service) watchdog(ctx context.Context, alive func(context.Context) error) error {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return err
	}
	again := time.NewTicker(every / 2)
	defer again.Stop()
	for {
		ask, cancel := context.WithTimeout(ctx, every/2)
		err := alive(ask)
		cancel()
		if err == nil {
			s.notify(daemon.SdNotifyWatchdog)
		} else if ctx.Err() == nil {
			s.log.Error("the database does not answer", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		}
	}
}

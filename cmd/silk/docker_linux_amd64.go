package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/silk-sandbox/silk/driver/docker"
	"github.com/silk-sandbox/silk/watch/bpf"
)

// dockerDriver makes the driver of containers, if there is an engine: one that was named, or one where they listen by default. It asks it nothing. why says
// why there is none.
func dockerDriver(cfg driverConfig) (d *docker.Driver, why string, err error) {
	address := cmp.Or(cfg.DockerHost, docker.DefaultHost)
	if cfg.DockerHost == "" {
		if _, err := os.Stat(strings.TrimPrefix(address, "unix://")); err != nil {
			return nil, "no Docker Engine listens on " + address + ": start one, or name its socket in the configuration (docker: {host: unix:///...})", nil
		}
	}
	config := docker.Config{Home: cfg.Home, Host: address, Logger: cfg.Logger}
	config.Watch, config.Ahead, config.Unwatched = newGuestWatch()
	d, err = docker.New(config)
	if errors.Is(err, docker.ErrUnusable) {
		return nil, err.Error(), nil
	}
	return d, "", err
}

// newGuestWatch loads the watcher of containers when the first one is about to start, which ahead says. It is another than that of sandboxes which have
// a kernel of their own.
func newGuestWatch() (begin func(ctx context.Context, pid int, release io.Writer) (docker.Scope, error), ahead func(), why string) {
	if c := bpf.Permitted(); c.Answer != bpf.Yes {
		return nil, nil, c.Reason
	}
	open := sync.OnceValues(func() (*bpf.Watcher, error) { return bpf.Open(context.Background(), bpf.Config{Guarded: true}) })
	begin = func(ctx context.Context, pid int, release io.Writer) (docker.Scope, error) {
		w, err := open()
		if err == nil {
			err = w.Check()
		}
		if err != nil {
			return nil, err
		}
		scope, err := w.Guest(ctx, pid, release)
		if err != nil {
			return nil, err // no typed nil
		}
		return guestScope{scope}, nil
	}
	return begin, func() { _, _ = open() }, "" // whoever begins to watch has its error
}

type guestScope struct{ *bpf.Scope }

// Dropped is how many events were lost.
func (g guestScope) Dropped() (int64, error) {
	c, err := g.Counts()
	return int64(c.Lost), err
}

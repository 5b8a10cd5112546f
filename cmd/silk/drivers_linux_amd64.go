package main

import (
	"errors"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/driver/gvisor/sentrybin"
)

// hostDrivers makes the drivers of this version: gvisor. Where it cannot be used there is none, and a run says why.
func hostDrivers(cfg driverConfig) (hostTools, error) {
	config := gvisor.Config{Home: cfg.Home, Sentry: cfg.Sentry, Ready: cfg.Ready, Logger: cfg.Logger}
	if cfg.Watch {
		config.Watch, config.Unwatched = newHostWatch()
	}
	g, err := gvisor.New(config)
	if errors.Is(err, gvisor.ErrUnusable) {
		return hostTools{WhyNone: err}, nil
	}
	if err != nil {
		return hostTools{}, &hostError{err}
	}
	return hostTools{
		Drivers: []driver.Driver{g}, Sweep: g.Sweep, Leftovers: g.Leftovers, Close: g.Close, KeepReady: g.KeepReady,
		Kernel: func() fact { return kernelFact(cfg.Home, cfg.Sentry) },
		Prune:  func(dry bool) ([]string, error) { return sentrybin.Prune(cfg.Home, dry) },
	}, nil
}

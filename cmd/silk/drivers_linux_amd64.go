package main

import (
	"errors"
	"os"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/driver/gvisor/sentrybin"
	"github.com/silk-sandbox/silk/egress/process"
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
	gateway := process.New(func() (string, error) { return process.Executable.Locate(cfg.Gateway, cfg.Home) }, cfg.Limits)
	return hostTools{
		Drivers: []driver.Driver{g}, Egress: gateway, Sweep: g.Sweep, Leftovers: g.Leftovers, KeepReady: g.KeepReady,
		Close: func() error { return errors.Join(g.Close(), gateway.Close()) },
		Carried: func() []fact {
			return []fact{
				carriedFact(sentrybin.Kernel, cfg.Home, cfg.Sentry, factFatal),
				carriedFact(process.Executable, cfg.Home, cfg.Gateway, factNo),
				gatewayFact(process.Landlocked(), os.Getuid() == 0),
			}
		},
		Prune: func(dry bool) ([]string, error) {
			kernels, err := sentrybin.Kernel.Prune(cfg.Home, dry)
			gateways, gatewayErr := process.Executable.Prune(cfg.Home, dry)
			return append(kernels, gateways...), errors.Join(err, gatewayErr)
		},
	}, nil
}

// gatewayFact says what a gateway that was taken over could read on this host: without Landlock, as much as whoever runs it.
func gatewayFact(landlock error, root bool) fact {
	const name = "egress gateway's files"
	switch {
	case landlock == nil:
		return fact{name, factYes, "the resolver's and the host's certificates, by Landlock"}
	case root:
		return fact{name, factYes, "those that everybody may read, by a user of its own: " + landlock.Error()}
	}
	return fact{name, factNo, landlock.Error() + ": one that was taken over could read what you can; start the kernel with lsm=landlock,..., or run silk as root, whose gateway is a user of its own"}
}

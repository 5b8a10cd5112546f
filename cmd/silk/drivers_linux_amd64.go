package main

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/docker"
	"github.com/silk-sandbox/silk/driver/firecracker"
	"github.com/silk-sandbox/silk/driver/firecracker/guestbin"
	"github.com/silk-sandbox/silk/driver/gvisor"
	"github.com/silk-sandbox/silk/driver/gvisor/sentrybin"
	"github.com/silk-sandbox/silk/egress/process"
	"github.com/silk-sandbox/silk/internal/cgroup"
)

// hostDrivers makes the drivers of this version: firecracker where it and KVM can be used, gvisor, docker where there is an engine, and qemu where there is one with
// a kernel. Where gvisor cannot be
// used there is none, and a run says why: nobody is put into a container who has not asked for it.
func hostDrivers(cfg driverConfig) (hostTools, error) {
	config := gvisor.Config{Home: cfg.Home, Sentry: cfg.Sentry, Ready: cfg.Ready, Logger: cfg.Logger}
	if cfg.Group != "" {
		config.Groups = func() (*cgroup.Root, error) { return cgroup.Within(cfg.Group) }
	}
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
	tools := hostTools{Drivers: []driver.Driver{g}, Absent: map[string]string{}}
	var d *docker.Driver
	var why string
	if !cfg.Contained {
		d, why, err = dockerDriver(cfg)
	}
	if err != nil {
		return hostTools{}, errors.Join(err, g.Close())
	}
	sweep, leftovers := []func(context.Context) error{g.Sweep}, []func() ([]string, error){g.Leftovers}
	closers := []func() error{g.Close}
	if d != nil {
		tools.Drivers = append(tools.Drivers, d, d.Silk(version))
		sweep, leftovers, closers = append(sweep, d.Sweep), append(leftovers, d.Leftovers), append(closers, d.Close)
	} else {
		tools.Absent["docker"], tools.Absent["docker/silk"] = why, why
	}
	tools.Absent["docker/runsc"] = "gVisor's own runtime runs nothing here: it would be watched by nobody, and know nothing of the plan; docker/silk has the same kernel, with both"
	for _, m := range machineDrivers(cfg) {
		sweep, leftovers = append(sweep, m.Sweep), append(leftovers, m.Leftovers)
		if why := m.Usable(); why != nil {
			tools.Absent[m.Name()] = strings.TrimPrefix(why.Error(), firecracker.ErrUnusable.Error()+": ")
		} else if m.Name() == jailedDriver { // preferred to all others
			tools.Drivers = slices.Insert(tools.Drivers, 0, driver.Driver(m))
		} else {
			tools.Drivers = append(tools.Drivers, m)
		}
	}
	gateway := process.New(func() (string, error) { return process.Executable.Locate(cfg.Gateway, cfg.Home) }, cfg.Limits)
	closers = append(closers, gateway.Close)
	tools.Egress, tools.KeepReady = gateway, g.KeepReady
	tools.Sweep = func(ctx context.Context) (err error) {
		for _, one := range sweep {
			err = errors.Join(err, one(ctx))
		}
		return err
	}
	tools.Leftovers = func() (all []string, err error) {
		for _, one := range leftovers {
			list, oneErr := one()
			all, err = append(all, list...), errors.Join(err, oneErr)
		}
		return all, err
	}
	tools.Close = func() (err error) {
		for _, one := range closers {
			err = errors.Join(err, one())
		}
		return err
	}
	tools.Carried = func() []fact {
		return append(machineFacts(tools), []fact{
			carriedFact(sentrybin.Kernel, cfg.Home, cfg.Sentry, factFatal),
			carriedFact(process.Executable, cfg.Home, cfg.Gateway, factNo),
			gatewayFact(process.Landlocked(), os.Getuid() == 0),
		}...)
	}
	tools.Prune = func(dry bool) ([]string, error) {
		agents, agentErr := guestbin.Agent.Prune(cfg.Home, dry)
		kernels, err := sentrybin.Kernel.Prune(cfg.Home, dry)
		gateways, gatewayErr := process.Executable.Prune(cfg.Home, dry)
		return slices.Concat(kernels, gateways, agents), errors.Join(err, gatewayErr, agentErr)
	}
	return tools, nil
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

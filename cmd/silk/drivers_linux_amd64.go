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
// a kernel. See [arrange] for which of them there are where gvisor cannot be used.
func hostDrivers(cfg driverConfig) (hostTools, error) {
	config := gvisor.Config{Home: cfg.Home, Sentry: cfg.Sentry, Ready: cfg.Ready, Logger: cfg.Logger}
	if cfg.Group != "" {
		config.Groups = func() (*cgroup.Root, error) { return cgroup.Within(cfg.Group) }
	}
	if cfg.Watch {
		config.Watch, config.Unwatched = newHostWatch()
	}
	tools := hostTools{Absent: map[string]string{}}
	var f found
	var sweep []func(context.Context) error
	var leftovers []func() ([]string, error)
	var closers []func() error
	g, err := gvisor.New(config)
	switch {
	case errors.Is(err, gvisor.ErrUnusable):
		tools.WhyNone, tools.Absent["gvisor"] = err, strings.TrimPrefix(err.Error(), gvisor.ErrUnusable.Error()+": ")
	case err != nil:
		return hostTools{}, &hostError{err}
	default:
		f.kernel, tools.KeepReady = g, g.KeepReady
		sweep, leftovers, closers = append(sweep, g.Sweep), append(leftovers, g.Leftovers), append(closers, g.Close)
	}
	var d *docker.Driver
	var why string
	switch {
	case f.kernel == nil:
		why = "gvisor cannot be used here, and nobody is put into a container who has not asked for it"
	case !cfg.Contained:
		if d, why, err = dockerDriver(cfg); err != nil {
			return hostTools{}, errors.Join(err, g.Close())
		}
	}
	if d != nil {
		f.containers = []driver.Driver{d, d.Silk(version)}
		sweep, leftovers, closers = append(sweep, d.Sweep), append(leftovers, d.Leftovers), append(closers, d.Close)
	} else {
		tools.Absent["docker"], tools.Absent["docker/silk"] = why, why
	}
	tools.Absent["docker/runsc"] = "gVisor's own runtime runs nothing here: it would be watched by nobody, and know nothing of the plan; docker/silk has the same kernel, with both"
	for _, m := range machineDrivers(cfg) {
		sweep, leftovers = append(sweep, m.Sweep), append(leftovers, m.Leftovers)
		if why := m.Usable(); why != nil {
			tools.Absent[m.Name()] = strings.TrimPrefix(why.Error(), firecracker.ErrUnusable.Error()+": ")
		} else if m.Name() == jailedDriver {
			f.jailed = m
		} else {
			f.emulated = m
		}
	}
	if tools.Drivers = arrange(f); len(tools.Drivers) == 0 {
		return hostTools{WhyNone: tools.WhyNone}, nil
	}
	gateway := process.New(func() (string, error) { return process.Executable.Locate(cfg.Gateway, cfg.Home) }, cfg.Limits)
	closers = append(closers, gateway.Close)
	tools.Egress = gateway
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

// found are the drivers that can be used on a host; nil: this one cannot.
type found struct {
	kernel           driver.Driver // gvisor
	jailed, emulated driver.Driver // virtual machines: firecracker and qemu
	containers       []driver.Driver
}

// arrange puts them in the order in which they are preferred: firecracker before gvisor, and those that are used only when they are asked for behind. Where there is neither of these two there is none
// at all, and a run says why: nobody is put into a container, or into a machine that may be emulated, who has not asked for it.
func arrange(f found) (list []driver.Driver) {
	for _, d := range []driver.Driver{f.jailed, f.kernel} {
		if d != nil {
			list = append(list, d)
		}
	}
	if len(list) == 0 {
		return nil
	}
	list = append(list, f.containers...)
	if f.emulated != nil {
		list = append(list, f.emulated)
	}
	return list
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

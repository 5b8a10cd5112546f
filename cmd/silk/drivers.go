package main

import (
	"context"
	"log/slog"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/run"
)

// openDrivers makes the drivers of this host, the preferred one first. It starts nothing.
type openDrivers func(cfg driverConfig) (hostTools, error)

// driverConfig is what drivers are made of.
type driverConfig struct {
	Home      string        // state directory
	Sentry    string        // path of the sandbox kernel instead of the built-in one, $SILK_SENTRY; empty: built in
	Gateway   string        // path of the egress gateway instead of the built-in one, $SILK_GATEWAY; empty: built in
	Limits    egress.Limits // of each sandbox that has a way out
	Ready     int           // sandbox kernels that KeepReady has waiting
	Contained bool          // runs are an engine's containers, which are not made by asking an engine
	Group     string        // path of the control group that sandboxes belong into; empty: that of this process, or one for all
	Watch     bool          // the host's kernel watches sandboxes besides, where it can
	Logger    *slog.Logger

	DockerHost string // address of a Docker Engine; empty: where one listens by default, if it does

	Images *image.Store // has the kernel of virtual machines; nil: there is none
	Kernel string       // image of that kernel, $SILK_KERNEL; empty: image.KernelTag
	QEMU   string       // path of what runs them; empty: there is none

	Firecracker, Jailer string // paths of what runs them on a host with KVM; empty: there is none
	Console             bool   // Firecracker's machines have a serial port, $SILK_CONSOLE
}

// hostTools is what this host gives to runs.
type hostTools struct {
	Drivers []driver.Driver
	WhyNone error                       // why there is no driver
	Absent  map[string]string           // why there is not the one of that name, though there are others
	Egress  run.Egress                  // nil: there is no way out of a sandbox
	Sweep   func(context.Context) error // removes what crashed runs left; may be nil

	// Leftovers names what Sweep would remove; nil if Sweep is.
	Leftovers func() ([]string, error)

	Carried func() []fact // which executables of silk's are used, for doctor; may be nil

	KeepReady func() // starts sandboxes ahead of runs; may be nil

	Close func() error                     // releases what drivers hold; may be nil
	Prune func(dry bool) ([]string, error) // removes what earlier versions of silk left, or names it; may be nil
}

// fact is one thing that doctor found out.
type fact struct {
	Name  string    `json:"name"`
	State factState `json:"state"`
	Text  string    `json:"text"`
}

type factState string

const (
	factYes     factState = "yes"
	factNo      factState = "no"      // a promise is kept in another way, or something optional is missing
	factUnknown factState = "unknown" // could not be found out
	factFatal   factState = "fatal"   // without it nothing runs
)

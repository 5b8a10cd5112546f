package docker

import (
	"context"
	"fmt"
	"math"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
)

// Silk is the driver whose containers have silk itself as their OCI runtime, in runc's place: the program runs in silk's own sandbox kernel, with the
// rules, the watching and the way out that it has without an engine, and the engine sees a container. The driver shares its engine, its
// images and what it sweeps with the [Driver] that it is made of.
//
// What the engine starts is a monitor, silk's own process (`silk runtime`). It learns by the container's id that a silk on this host has
// asked for it ([Called]), and gets what is to be run from there (package relay); of the engine's own wishes it keeps the control group. So
// there is one plan, one record and one line of audit for the run, that of the silk that was asked.
type Silk struct {
	docker *Driver
	build  string
}

var _ driver.Driver = (*Silk)(nil)

// runtimeName is how the engine must know silk: `silk doctor --docker --write` sees to it.
const runtimeName = "silk"

// Silk makes one. build is which silk this is: the engine's runtime must be the same one.
func (d *Driver) Silk(build string) *Silk { return &Silk{d, build} }

// Name implements [driver.Driver].
func (*Silk) Name() string { return "docker/silk" }

// Start implements [driver.Driver].
func (s *Silk) Start(ctx context.Context, spec driver.Spec) (driver.Sandbox, error) {
	return s.start(ctx, spec)
}

// Probe says what is otherwise than usual. An error means that no sandbox can be started at all.
func (s *Silk) Probe(ctx context.Context, _ driver.Spec) (notes []string, err error) {
	v, err := s.docker.engine.version(ctx)
	if err == nil {
		err = s.registered(ctx)
	}
	if err != nil {
		return nil, err
	}
	return []string{
		fmt.Sprintf("the container of Docker %s has silk as its runtime: the program runs in silk's own sandbox kernel, which decides and watches as it does without an engine", v.Version),
	}, nil
}

// registered says whether the engine knows silk as a runtime.
func (s *Silk) registered(ctx context.Context) error {
	runtimes, err := s.docker.engine.runtimes(ctx)
	if err != nil {
		return err
	}
	if _, ok := runtimes[runtimeName]; !ok {
		return unregistered("the engine has no runtime of the name " + runtimeName)
	}
	return nil
}

// unregistered is the refusal of an engine whose runtime is not this silk.
func unregistered(detail string) *driver.Unheld {
	return &driver.Unheld{Promise: "runtime", Detail: detail, Fix: "register this silk (silk doctor --docker --write), and let the engine read its configuration again"}
}

// silkContainerOf decides what the engine is asked for. The limits are there for people who look: the sandbox's are in what the runtime is
// told. It does no I/O.
func silkContainerOf(spec driver.Spec, image, owner string, processors int) container {
	return container{
		Image: image, Hostname: spec.Hostname, User: fmt.Sprintf("%d:%d", confine.User, confine.User), WorkingDir: "/",
		Entrypoint: []string{"silk"}, // the program comes another way, and is nobody's business who lists containers
		Env:        []string{},
		Labels:     map[string]string{labelRun: spec.ID, labelOwner: owner},
		HostConfig: hostConfig{
			Runtime:        runtimeName,
			NetworkMode:    "none",
			ReadonlyRootfs: true,
			Memory:         max(spec.MemoryBytes, minMemoryBytes),
			MemorySwap:     max(spec.MemoryBytes, minMemoryBytes),
			NanoCPUs:       int64(math.Round(min(spec.CPUs, float64(processors)) * 1e9)),
			PidsLimit:      int64(spec.Processes),
			CapDrop:        []string{"ALL"},
			SecurityOpt:    []string{"no-new-privileges"},
			IpcMode:        "private",
			LogConfig:      logConfig{"none"},
			RestartPolicy:  restartPolicy{"no"},
		},
	}
}

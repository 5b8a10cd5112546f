//go:build unix

package main

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata/*.txt")

// TestMain lets the scripts call silk, in three builds: with a fake driver, with one that cannot keep everything and meets
// trouble, and as on a host where nothing can run.
func TestMain(m *testing.M) {
	hostStores, deliverMost = nil, 30*time.Second
	with := func(tools hostTools) func() {
		return func() { os.Exit(newApp(func(driverConfig) (hostTools, error) { return tools, nil }).main(os.Args[1:])) }
	}
	testscript.Main(m, map[string]func(){
		"silk": with(hostTools{Drivers: []driver.Driver{&drivertest.Fake{}}}),
		"silk-weak": with(hostTools{
			Drivers:   []driver.Driver{weak{&drivertest.Fake{}}},
			Sweep:     func(context.Context) error { return errors.New("a control group is busy") },
			Leftovers: func() ([]string, error) { return []string{"/cgroup/silk-1"}, nil },
			Prune:     func(bool) ([]string, error) { return []string{"/an/old/kernel"}, nil },
		}),
		"silk-nowhere": with(hostTools{WhyNone: missingf("silk runs programs on Linux on amd64 only")}),
	})
}

// weak is a driver that keeps some promises otherwise; the program true succeeds.
type weak struct{ *drivertest.Fake }

func (weak) Probe(_ context.Context, spec driver.Spec) ([]string, error) {
	if spec.CPUs == 0.5 {
		return nil, &driver.Unheld{Promise: "cpus", Detail: "a share cannot be held", Fix: "ask for a whole number"}
	}
	return []string{"memory is watched", "CPU time is held otherwise", "something else", "the sandbox's kernel is the only watcher: nobody asked for another"}, nil
}

func (w weak) Start(ctx context.Context, spec driver.Spec) (driver.Sandbox, error) {
	if spec.Args[0] == "true" {
		spec.Args = []string{"fake", "exit:0"}
	}
	return w.Fake.Start(ctx, spec)
}

// TestScripts runs every verb as a user types it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		UpdateScripts:       *update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("SILK_HOME", filepath.Join(env.WorkDir, "state"))
			examples, err := filepath.Abs("../../examples/skills")
			if err != nil {
				return err
			}
			env.Setenv("EXAMPLES", examples)
			env.Setenv("SILK_CONFIG", filepath.Join(env.WorkDir, "config.yaml"))
			return os.WriteFile(filepath.Join(env.WorkDir, "config.yaml"), nil, 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "json": jsonCommand, "silk-image": silkImage, "run-id": runID, "handoff-id": handoffID, "break-trail": breakTrail, "expand": expand, "await": await, "blob": blob,
			"head-of": headOf, "rm-segments": rmSegments, "follow": follow,
		},
	})
}

//go:build unix

package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata/*.txt")

// TestMain lets the scripts call silk, in two builds: with a fake driver, and as on a host where nothing can run.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"silk": func() {
			os.Exit(newApp(func(driverConfig) (hostTools, error) {
				return hostTools{Drivers: []driver.Driver{&drivertest.Fake{}}}, nil
			}).main(os.Args[1:]))
		},
		"silk-nowhere": func() {
			os.Exit(newApp(func(driverConfig) (hostTools, error) {
				return hostTools{WhyNone: errNowhere}, nil
			}).main(os.Args[1:]))
		},
	})
}

var errNowhere = missingf("silk runs programs on Linux on amd64 only")

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
			env.Setenv("SILK_CONFIG", filepath.Join(env.WorkDir, "config.yaml"))
			return os.WriteFile(filepath.Join(env.WorkDir, "config.yaml"), nil, 0o600)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status": status, "json": jsonCommand, "silk-image": silkImage, "run-id": runID, "break-trail": breakTrail, "expand": expand, "await": await, "blob": blob,
		},
	})
}

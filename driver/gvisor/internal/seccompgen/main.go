// Command seccompgen compiles the seccomp filters of gVisor's Sentry for the configuration that silk runs, so that a
// start does not have to (up to 256 ms). Run it through `make generate`. It compiles only if the file is not from the
// version of gVisor that go.mod names: gVisor's compiler orders equal rules at random, so that the same source gives
// programs that differ in their bytes. Remove the file after a change of the configuration below.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	fconfig "gvisor.dev/gvisor/runsc/boot/filter/config"

	"github.com/silk-sandbox/silk/driver/gvisor/internal/seccompfile"
)

// ours are the parts of a program's name that our configuration has: the platform, no host network, no device proxies,
// no profiling, no cgo.
var ours = []string{
	"systrap", "HostNetwork=false", "NVProxy=false", "TPUProxy=false", "RDMAProxy=false",
	"CgoEnabled=false", "PluginNetwork=false", "ProfileEnable=false", "Instrumentation=false",
}

func main() {
	out := flag.String("o", "seccomp.gob", "file to write")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "seccompgen:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	version, err := gvisorVersion()
	if err != nil {
		return err
	}
	if b, err := os.ReadFile(out); err == nil {
		if module, programs, err := seccompfile.Decode(b); err == nil && module == version && len(programs) > 0 {
			return nil
		}
	}
	all, err := fconfig.PrecompiledPrograms()
	if err != nil {
		return fmt.Errorf("compile filters: %w", err)
	}
	keep := slices.DeleteFunc(slices.Clone(all), func(p precompiledseccomp.Program) bool {
		return slices.ContainsFunc(ours, func(s string) bool { return !strings.Contains(p.Name, s) })
	})
	if len(keep) == 0 {
		return fmt.Errorf("none of %d programs matches our configuration", len(all))
	}
	b, err := seccompfile.Encode(version, keep)
	if err != nil {
		return fmt.Errorf("encode filters: %w", err)
	}
	return renameio.WriteFile(out, b, 0o644)
}

// gvisorVersion is the version of the gVisor module that this program was built with.
func gvisorVersion() (string, error) {
	info, ok := debug.ReadBuildInfo()
	if ok {
		for _, dep := range info.Deps {
			if dep.Path == "gvisor.dev/gvisor" {
				return dep.Version, nil
			}
		}
	}
	return "", errors.New("this program does not know its gVisor version: build it in module mode")
}

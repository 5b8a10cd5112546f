// Command seccompgen compiles the seccomp filters of gVisor's Sentry for the configuration that silk runs, so that a
// start does not have to (up to 256 ms). Run it through `make generate`, after each change of the gVisor version.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
	"github.com/silk-sandbox/silk/driver/gvisor/internal/seccompfile"
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	fconfig "gvisor.dev/gvisor/runsc/boot/filter/config"
)

// ours are the parts of a program's name that our configuration has: no host network, no device proxies, no profiling,
// no cgo. Both platforms that need no kernel module stay.
var ours = []string{
	"HostNetwork=false", "NVProxy=false", "TPUProxy=false", "RDMAProxy=false",
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
	if old, err := os.ReadFile(out); err == nil && same(old, keep) {
		return nil
	}
	b, err := seccompfile.Encode(keep)
	if err != nil {
		return fmt.Errorf("encode filters: %w", err)
	}
	return renameio.WriteFile(out, b, 0o644)
}

// same reports whether a file holds these programs. gVisor's compiler walks maps, so that each time it puts equal rules
// in another order: programs with the same name, length and number of variables are taken for the same, and the
// committed file stays as it is. A new gVisor version or another configuration changes one of the three.
func same(file []byte, programs []precompiledseccomp.Program) bool {
	old, err := seccompfile.Decode(file)
	if err != nil || len(old) != len(programs) {
		return false
	}
	return !slices.ContainsFunc(programs, func(p precompiledseccomp.Program) bool {
		o, ok := old[p.Name]
		return !ok || len(o.Bytecode32) != len(p.Bytecode32) || !maps.EqualFunc(o.VarOffsets, p.VarOffsets, func(a, b []int) bool {
			return len(a) == len(b)
		})
	})
}

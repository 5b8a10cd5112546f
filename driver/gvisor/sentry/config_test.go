package sentry

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gvisor.dev/gvisor/runsc/config"
	"gvisor.dev/gvisor/runsc/flag"
)

// TestConfigIsWhatRunscMakesOfItsFlags finds new flags and changed defaults of a new gVisor.
func TestConfigIsWhatRunscMakesOfItsFlags(t *testing.T) {
	flags := flag.NewFlagSet("silk", flag.ContinueOnError)
	config.RegisterFlags(flags)
	for name, value := range map[string]string{
		"platform": "systrap", "network": "none", "directfs": "false", "overlay2": "none", "host-settings": "ignore",
		"host-uds": "none", "host-fifo": "none", "file-access": "exclusive",
	} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	want, err := config.NewFromFlags(flags)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, newConfig(), cmpopts.IgnoreUnexported(config.Config{}, config.Overlay2{})); d != "" {
		t.Errorf("configuration (-runsc +ours):\n%s", d)
	}
}

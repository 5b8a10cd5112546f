package driver_test

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver"
)

func TestSpecCheck(t *testing.T) {
	for want, harm := range map[string]func(*driver.Spec){
		"":                             func(*driver.Spec) {},
		"no id":                        func(s *driver.Spec) { s.ID = "" },
		"no image":                     func(s *driver.Spec) { s.Image = nil },
		"no command":                   func(s *driver.Spec) { s.Args = nil },
		"no output":                    func(s *driver.Spec) { s.Stdout = nil },
		"above zero":                   func(s *driver.Spec) { s.ShmBytes = 0 },
		"a network without a link":     func(s *driver.Spec) { s.Network = driver.NetworkLink },
		"a link without its network":   func(s *driver.Spec) { s.Link.File = s.Image },
		`there is no network mode "x"`: func(s *driver.Spec) { s.Network = "x" },
	} {
		spec := driver.Spec{
			ID: "one", Image: os.Stdin, Args: []string{"true"}, Stdout: os.Stdout, Network: driver.NetworkDeny,
			MemoryBytes: 1, WorkspaceBytes: 1, TmpBytes: 1, ShmBytes: 1, Processes: 1, CPUs: 0.5,
		}
		harm(&spec)
		if err := spec.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	spec := driver.Spec{
		ID: "one", Image: os.Stdin, Args: []string{"true"}, Terminal: os.Stdout, Network: driver.NetworkLink, ReadOnly: true,
		MemoryBytes: 1, WorkspaceBytes: 1, TmpBytes: 1, Processes: 1, CPUs: 0.5, Link: driver.Link{File: os.Stdin, Addrs: []netip.Addr{netip.IPv6Loopback()}, MTU: 1 << 16},
	}
	if err := spec.Check(); err == nil {
		t.Error("packets larger than an IP packet")
	}
	spec.Link.MTU--
	if err := spec.Check(); err != nil {
		t.Error(err)
	}
}

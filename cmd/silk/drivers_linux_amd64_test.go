package main

import (
	"context"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver"
)

// named is a driver that starts nothing.
type named string

func (n named) Name() string { return string(n) }

func (named) Start(context.Context, driver.Spec) (driver.Sandbox, error) { return nil, nil }

// The first one is what a run gets that asks for none.
func TestArrange(t *testing.T) {
	containers := []driver.Driver{named("docker"), named("docker/silk")}
	for _, test := range []struct {
		name  string
		found found
		want  string
	}{
		{"nothing", found{}, ""},
		{"everything", found{named("gvisor"), named("firecracker"), named("qemu"), containers}, "firecracker gvisor docker docker/silk qemu"},
		{"no KVM", found{kernel: named("gvisor"), emulated: named("qemu"), containers: containers}, "gvisor docker docker/silk qemu"},
		{"no gVisor", found{jailed: named("firecracker"), emulated: named("qemu")}, "firecracker qemu"},
		{"neither", found{emulated: named("qemu"), containers: containers}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var names []string
			for _, d := range arrange(test.found) {
				names = append(names, d.Name())
			}
			if got := strings.Join(names, " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

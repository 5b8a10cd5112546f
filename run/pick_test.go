package run

import (
	"context"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/policy"
)

// called is a driver that starts nothing.
type called string

func (n called) Name() string { return string(n) }

func (called) Start(context.Context, driver.Spec) (driver.Sandbox, error) { return nil, nil }

// unwatched keeps no promise of a second watcher.
type unwatched struct{ called }

func (unwatched) Holds(spec driver.Spec) error {
	if spec.RequireWatch {
		return &driver.Unheld{Promise: "watch"}
	}
	return nil
}

// Where no driver is named it is the first that keeps the plan's promises; where none does, the first one says so; a name is a name.
func TestPick(t *testing.T) {
	machine, kernel := unwatched{"firecracker"}, called("gvisor")
	for _, test := range []struct {
		name    string
		drivers []driver.Driver
		plan    policy.Plan
		want    string
	}{
		{"the first", []driver.Driver{machine, kernel}, policy.Plan{Driver: "auto"}, "firecracker"},
		{"none named", []driver.Driver{machine, kernel}, policy.Plan{}, "firecracker"},
		{"a promise that the first does not keep", []driver.Driver{machine, kernel}, policy.Plan{Driver: "auto", RequireWatch: true, Network: "deny"}, "gvisor"},
		{"a promise that nobody keeps", []driver.Driver{machine}, policy.Plan{Driver: "auto", RequireWatch: true, Network: "deny"}, "firecracker"},
		{"by name", []driver.Driver{machine, kernel}, policy.Plan{Driver: "gvisor"}, "gvisor"},
		{"by name, whatever it keeps", []driver.Driver{kernel, machine}, policy.Plan{Driver: "firecracker", RequireWatch: true, Network: "deny"}, "firecracker"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := (&Engine{cfg: Config{Drivers: test.drivers}}).pick(test.plan)
			if err != nil || d.Name() != test.want {
				t.Errorf("got %v, %v, want %s", d, err, test.want)
			}
		})
	}
	for want, drivers := range map[string][]driver.Driver{"no sandbox driver": nil, `no driver "other" here; there is gvisor`: {kernel}} {
		if _, err := (&Engine{cfg: Config{Drivers: drivers}}).pick(policy.Plan{Driver: "other"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

package main

import (
	"context"
	"strings"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/firecracker"
)

// machineDriver makes the driver of virtual machines, if there is all that it needs. It starts nothing. why says what is missing.
func machineDriver(cfg driverConfig) (d *firecracker.Driver, why string) {
	d = firecracker.New(firecracker.Config{Home: cfg.Home, Images: cfg.Images, QEMU: cfg.QEMU, Logger: cfg.Logger})
	if err := d.Usable(); err != nil {
		return nil, strings.TrimPrefix(err.Error(), firecracker.ErrUnusable.Error()+": ")
	}
	return d, ""
}

// machineFact says what virtual machines there would be. doctor starts none: an emulated one takes half a minute.
func machineFact(tools hostTools) fact {
	const name = "driver qemu"
	if why, ok := tools.Absent["qemu"]; ok {
		return fact{name, factNo, why}
	}
	for _, d := range tools.Drivers {
		m, ok := d.(*firecracker.Driver)
		if !ok {
			continue
		}
		notes, err := m.Probe(context.Background(), driver.Spec{Network: driver.NetworkDeny})
		if err != nil {
			return fact{name, factNo, err.Error()}
		}
		return fact{name, factYes, strings.Join(notes, "; ") + " (not tried: silk run --driver qemu -c true)"}
	}
	return fact{name, factUnknown, "not asked"}
}

package main

import (
	"context"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/firecracker"
	"github.com/silk-sandbox/silk/internal/kvm"
)

// machineDrivers are the drivers of virtual machines, whether they can be used or not. They start nothing.
func machineDrivers(cfg driverConfig) []*firecracker.Driver {
	config := firecracker.Config{
		Home: cfg.Home, Images: cfg.Images, Kernel: cfg.Kernel, QEMU: cfg.QEMU, Firecracker: cfg.Firecracker, Jailer: cfg.Jailer, Console: cfg.Console, Logger: cfg.Logger,
	}
	return []*firecracker.Driver{firecracker.NewJailed(config), firecracker.New(config)}
}

// machineFacts say what virtual machines there would be. Where Firecracker can be used doctor tries it like other drivers.
func machineFacts(tools hostTools) []fact {
	facts := []fact{kvmFact()}
	if why, ok := tools.Absent[jailedDriver]; ok {
		facts = append(facts, fact{"driver " + jailedDriver, factNo, why})
	}
	return append(facts, qemuFact(tools))
}

// qemuFact: an emulated machine takes half a minute, and doctor starts none.
func qemuFact(tools hostTools) fact {
	const name, title = "qemu", "driver qemu"
	if why, ok := tools.Absent[name]; ok {
		return fact{title, factNo, why}
	}
	for _, d := range tools.Drivers {
		m, ok := d.(*firecracker.Driver)
		if !ok || m.Name() != name {
			continue
		}
		notes, err := m.Probe(context.Background(), driver.Spec{Network: driver.NetworkDeny})
		if err != nil {
			return fact{title, factNo, err.Error()}
		}
		return fact{title, factYes, strings.Join(notes, "; ") + " (not tried: silk run --driver qemu -c true)"}
	}
	return fact{title, factUnknown, "not asked"}
}

// kvmFact says whether machines run on this host, by running one.
func kvmFact() fact {
	const name = "virtualization"
	if err := kvm.Probe(3 * time.Second); err != nil {
		return fact{name, factNo, err.Error() + "; on a physical host switch it on in the firmware and load kvm_intel or kvm_amd, on a virtual one switch nested virtualization on"}
	}
	return fact{name, factYes, "/dev/kvm runs machines"}
}

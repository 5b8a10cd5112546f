package rules

import (
	"path"
	"slices"
	"strings"
)

// hostDevices are patterns (path.Match) of the first name below /dev for devices that belong to a host and never to a
// sandbox.
var hostDevices = []string{
	"mem", "kmem", "port", "kmsg", "oldmem", "kvm", "vhost*", "fuse", "cuse", "cpu", "mcelog", "crash",
	"sd[a-z]*", "hd[a-z]", "hd[a-z][0-9]*", "vd[a-z]*", "xvd[a-z]*", "nvme[0-9]*", "mmcblk[0-9]*", "nbd[0-9]*", "ram[0-9]*", "zram[0-9]*",
	"loop[0-9]*", "loop-control", "dm-[0-9]*", "mapper", "disk", "md[0-9]*", "sr[0-9]*", "sg[0-9]*", "raw*", "cdrom", "dvd", "btrfs-control",
	"nvidia*", "dri", "snd", "input", "uinput", "uhid", "hidraw*", "bus", "usb*", "video*", "fb[0-9]*", "i2c-*", "gpio*", "spidev*", "tpm*",
	"watchdog*", "rtc*", "hpet", "nvram", "vcs*", "vcsa*", "ttyS*", "tty[0-9]*", "userfaultfd", "autofs", "rfkill", "ppp", "vfio", "iommu",
	"sgx*", "sev*", "tdx*", "initctl", "binder*", "ashmem",
	"vport*", "hvc[0-9]*", "vsock", "hwrng", // of a virtual machine, to its host
}

// HostDevice says whether name, absolute, is that of a device which belongs to a host.
func HostDevice(name string) bool {
	name, ok := strings.CutPrefix(name, "/dev/")
	if !ok {
		return false
	}
	first, _, _ := strings.Cut(name, "/")
	return Covers("net/tun", name) || slices.ContainsFunc(hostDevices, func(pattern string) bool {
		ok, err := path.Match(pattern, first)
		return ok || err != nil // a bad pattern denies
	})
}

package gateway

import "golang.org/x/sys/unix"

// auditArch is the machine's in struct seccomp_data.
const auditArch = unix.AUDIT_ARCH_AARCH64

// ofHardware are the calls whose names differ between architectures.
func ofHardware() []uint32 { return []uint32{unix.SYS_FSTATAT} }

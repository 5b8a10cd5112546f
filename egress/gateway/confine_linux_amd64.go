package gateway

import "golang.org/x/sys/unix"

// auditArch is the machine's in struct seccomp_data. Calls of x32 have numbers of their own, none of which is permitted.
const auditArch = unix.AUDIT_ARCH_X86_64

// ofHardware are the calls whose names differ between architectures.
func ofHardware() []uint32 { return []uint32{unix.SYS_NEWFSTATAT} }

package image

// KernelTag is the tag of the image that virtual machines boot: a kernel, and the modules that their agent loads. It is no root file
// system, and no program runs on it.
const KernelTag = "kernel"

// Names in that image.
const (
	KernelFile    = "boot/vmlinux" // ELF, with the entry point for PVH
	KernelModules = "lib/modules"  // directory of modules, uncompressed, whose names sort in the order in which they are to be loaded
)

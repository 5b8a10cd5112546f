// Package sentry is the process that silk runs untrusted code in: gVisor's Sentry, started without the runsc command
// line, with silk's policy in its system call table.
//
// [Main] is the whole process. Package stage has confined it before its first instruction (empty root, no capabilities,
// its own namespaces). It builds a kernel and a platform before it has seen anything of the run, receives one [wire.Request] with descriptors, patches the
// waiting kernel with it, installs gVisor's seccomp filter on itself, fills /workspace, starts the program as process 2
// under a tiny init of our own, and reports how it ended. It serves one request and exits.
//
// Everything here depends on unexported parts of one pinned gVisor version: linkname.go holds them all, and a test
// pins their shape. Nothing outside cmd/silk-sentry may import this package: it links gVisor, and starting it costs
// tens of milliseconds of package initialisation.
package sentry

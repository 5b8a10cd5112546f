//go:build !server && (!linux || !amd64)

package main

// localEngine is not for this system.
func (a *app) localEngine(mcpFlags) (engines, error) {
	return engines{}, missingf("silk runs programs on Linux on amd64 only; elsewhere it is a client: name a server with --server URL")
}

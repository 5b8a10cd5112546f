//go:build !linux || !amd64

package main

import (
	"fmt"
	"runtime"
)

// hostDrivers says that nothing runs here. Everything that needs no sandbox works: profiles, plans, images, records.
func hostDrivers(driverConfig) (hostTools, error) {
	return hostTools{WhyNone: fmt.Errorf("silk runs programs on Linux on amd64 only, and this is %s on %s: use silk on such a server", runtime.GOOS, runtime.GOARCH)}, nil
}

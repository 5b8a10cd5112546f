// Command silk runs code that you do not trust in a sandbox of its own.
//
// This package is flags, configuration and wiring: it reads the environment, makes the parts and hands them to run.Engine,
// and turns what comes back into text, JSON and an exit status. It decides nothing about what is allowed. Each verb is a
// file; errors become exit codes in exit.go and nowhere else.
package main

import (
	"os"
	"time"
)

// version is set by the linker: -X main.version=v0.1.0.
var version = "development"

// began is when this process began, as near as a Go program can tell: its packages were initialised before.
var began = time.Now()

func main() {
	os.Exit(newApp(hostDrivers).main(os.Args[1:]))
}

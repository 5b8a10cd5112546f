// Command silk runs code that you do not trust in a sandbox of its own.
//
// This package is flags, configuration and wiring: it reads the environment, makes the parts and hands them to run.Engine,
// and turns what comes back into text, JSON and an exit status. It decides nothing about what is allowed. Each verb is a
// file; errors become exit codes in exit.go and nowhere else.
package main

import (
	"os"
	"path/filepath"
	"time"
)

// version is set by the linker: -X main.version=v0.1.0.
var version = "development"

// began is when this process began, as near as a Go program can tell: its packages were initialised before.
var began = time.Now()

func main() {
	os.Exit(newApp(hostDrivers).main(words(os.Args)))
}

// Names under which the executable is a runtime, and a container's monitor: what an engine is given is a path and no arguments.
const (
	runtimeName = "silk-runtime"
	monitorName = "silk-monitor"
)

// words are the arguments of a command line, with the verb that the executable's name stands for.
func words(args []string) []string {
	switch filepath.Base(args[0]) {
	case runtimeName:
		return append([]string{"runtime"}, args[1:]...)
	case monitorName:
		return append([]string{"runtime"}, args[1:]...)
	}
	return args[1:]
}

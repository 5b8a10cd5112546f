package sentry

import (
	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
	"gvisor.dev/gvisor/runsc/boot/filter"
)

//go:generate go run -modfile ../../../bin/gvisor.mod ../internal/seccompgen -o seccomp_programs.go

// loadSeccompPrograms gives gVisor its own filters for the Sentry and its stub processes, compiled by its own compiler for the one
// configuration that we run. A program that is missing is compiled at the start, which is slow but correct: the filter's
// options, not this table, decide which one is installed.
func loadSeccompPrograms() {
	filter.ListPrecompiled() // fires the Once that would overwrite the map
	precompiledPrograms = make(map[string]precompiledseccomp.Program, len(seccompPrograms))
	for _, p := range seccompPrograms {
		precompiledPrograms[p.Name] = p
	}
	stubFilters = make(map[string]precompiledseccomp.Program, len(stubPrograms))
	for _, p := range stubPrograms {
		stubFilters[p.Name] = p
	}
}

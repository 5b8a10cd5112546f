package sentry

import (
	_ "embed"

	"github.com/silk-sandbox/silk/driver/gvisor/internal/seccompfile"
	"gvisor.dev/gvisor/runsc/boot/filter"
)

//go:generate go run ../internal/seccompgen -o seccomp.gob

// seccompPrograms is gVisor's own filter for its Sentry, compiled by gVisor's own compiler for the one configuration
// that we run. A program that is missing here is compiled at the start, which is slow but correct: the filter's options,
// not this file, decide which one is installed.
//
//go:embed seccomp.gob
var seccompPrograms []byte

func loadSeccompPrograms() error {
	_, programs, err := seccompfile.Decode(seccompPrograms)
	if err != nil {
		return err
	}
	filter.ListPrecompiled() // fires the Once that would overwrite the map
	precompiledPrograms = programs
	return nil
}

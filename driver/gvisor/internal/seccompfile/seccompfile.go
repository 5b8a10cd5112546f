// Package seccompfile is the form in which compiled seccomp programs are embedded: gob of sorted slices, so that the
// same programs always give the same bytes (gob writes maps in random order).
package seccompfile

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"maps"
	"slices"

	"gvisor.dev/gvisor/pkg/seccomp/precompiledseccomp"
)

// file is what is embedded.
type file struct {
	Module   string // version of gVisor that the programs were compiled from
	Programs []program
}

type program struct {
	Name string
	Code []uint32
	Vars []variable
}

type variable struct {
	Name    string
	Offsets []int
}

// Encode returns programs, compiled from the named version of gVisor, in the form that [Decode] reads, sorted by name.
func Encode(module string, programs []precompiledseccomp.Program) ([]byte, error) {
	out := file{Module: module}
	for _, p := range programs {
		f := program{Name: p.Name, Code: p.Bytecode32}
		for _, name := range slices.Sorted(maps.Keys(p.VarOffsets)) {
			f.Vars = append(f.Vars, variable{name, p.VarOffsets[name]})
		}
		out.Programs = append(out.Programs, f)
	}
	slices.SortFunc(out.Programs, func(a, b program) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(out)
	return b.Bytes(), err
}

// Decode reads what [Encode] wrote: programs by name, and the version of gVisor that they are from.
func Decode(b []byte) (module string, programs map[string]precompiledseccomp.Program, err error) {
	var in file
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&in); err != nil {
		return "", nil, fmt.Errorf("decode seccomp programs: %w", err)
	}
	programs = make(map[string]precompiledseccomp.Program, len(in.Programs))
	for _, f := range in.Programs {
		p := precompiledseccomp.Program{Name: f.Name, Bytecode32: f.Code, VarOffsets: make(map[string][]int, len(f.Vars))}
		for _, v := range f.Vars {
			p.VarOffsets[v.Name] = v.Offsets
		}
		programs[f.Name] = p
	}
	return in.Module, programs, nil
}

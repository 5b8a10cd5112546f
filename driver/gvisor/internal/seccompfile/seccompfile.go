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

type program struct {
	Name string
	Code []uint32
	Vars []variable
}

type variable struct {
	Name    string
	Offsets []int
}

// Encode returns programs in the form that [Decode] reads, sorted by name.
func Encode(programs []precompiledseccomp.Program) ([]byte, error) {
	file := make([]program, 0, len(programs))
	for _, p := range programs {
		f := program{Name: p.Name, Code: p.Bytecode32}
		for _, name := range slices.Sorted(maps.Keys(p.VarOffsets)) {
			f.Vars = append(f.Vars, variable{name, p.VarOffsets[name]})
		}
		file = append(file, f)
	}
	slices.SortFunc(file, func(a, b program) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	var b bytes.Buffer
	err := gob.NewEncoder(&b).Encode(file)
	return b.Bytes(), err
}

// Decode reads what [Encode] wrote, by program name.
func Decode(b []byte) (map[string]precompiledseccomp.Program, error) {
	var file []program
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&file); err != nil {
		return nil, fmt.Errorf("decode seccomp programs: %w", err)
	}
	programs := make(map[string]precompiledseccomp.Program, len(file))
	for _, f := range file {
		p := precompiledseccomp.Program{Name: f.Name, Bytecode32: f.Code, VarOffsets: make(map[string][]int, len(f.Vars))}
		for _, v := range f.Vars {
			p.VarOffsets[v.Name] = v.Offsets
		}
		programs[f.Name] = p
	}
	return programs, nil
}

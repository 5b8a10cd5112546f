package profile

import (
	"encoding/json"
	"fmt"
	"time"
)

// limitsJSON is the wire form of Limits: numbers with their unit in the name, zero fields left out.
type limitsJSON struct {
	TimeoutMs      int64   `json:"timeout_ms,omitempty"`
	MemoryBytes    int64   `json:"memory_bytes,omitempty"`
	CPUs           float64 `json:"cpus,omitempty"`
	Processes      int     `json:"processes,omitempty"`
	WorkspaceBytes int64   `json:"workspace_bytes,omitempty"`
	TmpBytes       int64   `json:"tmp_bytes,omitempty"`
	ShmBytes       int64   `json:"shm_bytes,omitempty"`
	OutputBytes    int64   `json:"output_bytes,omitempty"`
}

// MarshalJSON writes numbers with their unit in the name: timeout_ms, memory_bytes, ...; zero fields are left out. A
// timeout is rounded up to whole milliseconds, so that one that is set never reads as unset.
func (l Limits) MarshalJSON() ([]byte, error) {
	return json.Marshal(limitsJSON{
		TimeoutMs:      int64((l.Timeout + time.Millisecond - 1) / time.Millisecond),
		MemoryBytes:    l.MemoryBytes,
		CPUs:           l.CPUs,
		Processes:      l.Processes,
		WorkspaceBytes: l.WorkspaceBytes,
		TmpBytes:       l.TmpBytes,
		ShmBytes:       l.ShmBytes,
		OutputBytes:    l.OutputBytes,
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *Limits) UnmarshalJSON(data []byte) error {
	var w limitsJSON
	if err := json.Unmarshal(data, &w); err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	*l = Limits{
		Timeout:        time.Duration(w.TimeoutMs) * time.Millisecond,
		MemoryBytes:    w.MemoryBytes,
		CPUs:           w.CPUs,
		Processes:      w.Processes,
		WorkspaceBytes: w.WorkspaceBytes,
		TmpBytes:       w.TmpBytes,
		ShmBytes:       w.ShmBytes,
		OutputBytes:    w.OutputBytes,
	}
	return nil
}

// over returns l with every field that is set in top taken from top.
func (l Limits) over(top Limits) Limits {
	pick(&l.Timeout, top.Timeout)
	pick(&l.MemoryBytes, top.MemoryBytes)
	pick(&l.CPUs, top.CPUs)
	pick(&l.Processes, top.Processes)
	pick(&l.WorkspaceBytes, top.WorkspaceBytes)
	pick(&l.TmpBytes, top.TmpBytes)
	pick(&l.ShmBytes, top.ShmBytes)
	pick(&l.OutputBytes, top.OutputBytes)
	return l
}

func pick[T int | int64 | float64 | time.Duration](dst *T, v T) {
	if v != 0 {
		*dst = v
	}
}

// Or returns l with its unset fields taken from base.
func (l Limits) Or(base Limits) Limits { return base.over(l) }

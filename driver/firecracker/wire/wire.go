// Package wire is what silk and the agent in a virtual machine tell each other over internal/guestwire, as JSON: a [Plan] on the way in, a
// [Report] on the way out. The report comes out of a machine that an enemy may have taken over: [ParseReport] lets nothing through
// that a driver could not have said.
package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/watch"
)

// MaxBytes bounds a plan and a report. Linux takes 128 KiB for each argument and 2 MiB for all; 64 events are 300 KiB at most.
const MaxBytes = 8 << 20

// Hello is the first that the agent says.
type Hello struct {
	Version  int    `json:"version"` // of guestwire
	Kernel   string `json:"kernel"`
	UptimeMs int64  `json:"uptime_ms"` // since the kernel began
}

// Plan is a spec without what only the host has.
type Plan struct {
	Now time.Time `json:"now"` // by the host's clock

	Args     []string       `json:"args"`
	Env      []string       `json:"env"`
	Dir      string         `json:"dir"`
	Hostname string         `json:"hostname"`
	Network  driver.Network `json:"network"`
	Files    []driver.File  `json:"files,omitempty"`
	Trees    []string       `json:"trees"`
	Drives   []string       `json:"drives"`           // their serial numbers: the image's, then one for each of Mounts
	Mounts   []string       `json:"mounts,omitempty"` // where the other drives' file systems belong
	ReadOnly bool           `json:"read_only,omitempty"`
	NoSpawn  bool           `json:"no_spawn,omitempty"`
	Terminal *Size          `json:"terminal,omitempty"`
	Link     *Link          `json:"link,omitempty"` // with driver.NetworkLink: a network interface whose packets are those of Inbound and Outbound

	MemoryBytes    int64   `json:"memory_bytes"`
	WorkspaceBytes int64   `json:"workspace_bytes"`
	TmpBytes       int64   `json:"tmp_bytes"`
	ShmBytes       int64   `json:"shm_bytes"`
	Processes      int     `json:"processes"`
	CPUs           float64 `json:"cpus"`

	Drain *Bounds `json:"drain,omitempty"` // nil: unwanted
}

// Size is a terminal's, in character cells.
type Size struct {
	Columns uint16 `json:"columns"`
	Rows    uint16 `json:"rows"`
}

// Link is a machine's only way out, driver.Link.
type Link struct {
	Addrs []netip.Addr `json:"addrs"`
	MTU   int          `json:"mtu"`
}

// Bounds bound what is drained from a workspace.
type Bounds struct {
	FileBytes  int64 `json:"file_bytes"`
	TotalBytes int64 `json:"total_bytes"`
	Entries    int   `json:"entries"`
}

// PlanOf is that of a spec. Its drives, its terminal and its drain are the caller's to add.
func PlanOf(s driver.Spec, now time.Time) Plan {
	p := Plan{
		Now: now, Args: s.Args, Env: s.Env, Dir: s.Dir, Hostname: s.Hostname, Network: s.Network, Files: s.Files, Trees: s.Trees,
		ReadOnly: s.ReadOnly, NoSpawn: s.NoSpawn,
		MemoryBytes: s.MemoryBytes, WorkspaceBytes: s.WorkspaceBytes, TmpBytes: s.TmpBytes, ShmBytes: s.ShmBytes, Processes: s.Processes, CPUs: s.CPUs,
	}
	if s.Network == driver.NetworkLink {
		p.Link = &Link{Addrs: s.Link.Addrs, MTU: s.Link.MTU}
	}
	for _, m := range s.Mounts {
		p.Mounts = append(p.Mounts, m.Target)
	}
	return p
}

// Spec is the reverse, as far as an agent needs it.
func (p Plan) Spec() driver.Spec {
	return driver.Spec{Args: p.Args, Env: p.Env, Dir: p.Dir, Network: p.Network, Files: p.Files, Trees: p.Trees, ReadOnly: p.ReadOnly, NoSpawn: p.NoSpawn}
}

// Report says how a program ended.
type Report struct {
	Code       int    `json:"code"`
	Signal     int    `json:"signal,omitempty"`
	NotFound   bool   `json:"not_found,omitempty"`
	Message    string `json:"message,omitempty"`
	OOM        bool   `json:"oom,omitempty"`
	DrainError string `json:"drain_error,omitempty"`

	Violation *driver.Violation    `json:"violation,omitempty"`
	Refused   []driver.Refusal     `json:"refused,omitempty"`
	Flags     driver.Flags         `json:"flags"`
	Counts    map[watch.Kind]int64 `json:"counts,omitempty"`
	Dropped   int64                `json:"dropped,omitempty"`
	Last      []watch.Event        `json:"last,omitempty"`

	CPU             time.Duration `json:"cpu_ns"`
	PeakMemoryBytes int64         `json:"peak_memory_bytes"`
	Processes       int64         `json:"processes"`

	AgentBytes int64 `json:"agent_bytes"` // resident set of the agent itself, at most
}

// LastEvents is how many events before a violation are kept.
const LastEvents = 64

// Read reads what was said on a stream: one JSON value, MaxBytes at most.
func Read(r io.Reader, to any) error {
	b, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err != nil {
		return err
	}
	if len(b) > MaxBytes {
		return fmt.Errorf("more than %d bytes", MaxBytes)
	}
	return decode(b, to)
}

func decode(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(to); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("more than one value")
	}
	return nil
}

// ParseHello reads the agent's first word.
func ParseHello(b []byte) (h Hello, err error) {
	if err := decode(b, &h); err != nil {
		return h, fmt.Errorf("the agent's first word: %w", err)
	}
	h.Kernel = watch.Printable(h.Kernel)
	h.UptimeMs = max(h.UptimeMs, 0)
	return h, nil
}

// ParseEvent reads an event, and makes it one that an agent may report.
func ParseEvent(b []byte) (e watch.Event, err error) {
	if err := decode(b, &e); err != nil {
		return e, fmt.Errorf("an event of the agent's: %w", err)
	}
	return e, checkEvent(&e)
}

func checkEvent(e *watch.Event) error {
	switch e.Kind {
	case watch.Socket, watch.Connect, watch.OpenAt, watch.Execve, watch.SetUID, watch.CapSet, watch.Mount, watch.Clone, watch.Denied:
	default:
		return fmt.Errorf("an event of the agent's: kind %q", watch.Printable(string(e.Kind)))
	}
	e.Origin = watch.Guest
	e.Syscall, e.Argument, e.Result = watch.Printable(e.Syscall), watch.Printable(e.Argument), watch.Printable(e.Result)
	return nil
}

// ReadReport reads a report from its stream.
func ReadReport(r io.Reader) (report Report, err error) {
	if err := Read(r, &report); err != nil {
		return Report{}, fmt.Errorf("the agent's report: %w", err)
	}
	if err := report.check(); err != nil {
		return Report{}, fmt.Errorf("the agent's report: %w", err)
	}
	return report, nil
}

// check refuses what cannot be, and makes text fit for others.
func (r *Report) check() error {
	if r.Code < 0 || r.Code > 255 || r.Signal < 0 || r.Signal > 64 {
		return fmt.Errorf("status %d, signal %d", r.Code, r.Signal)
	}
	if r.OOM && r.Violation != nil {
		return fmt.Errorf("two reasons for one end")
	}
	if v := r.Violation; v != nil {
		if rule, ok := rules.Named(v.Rule); !ok || rule.Action != rules.Kill {
			return fmt.Errorf("a violation of the rule %q", watch.Printable(v.Rule))
		}
		v.Syscall, v.Argument = watch.Printable(v.Syscall), watch.Printable(v.Argument)
	}
	if len(r.Refused) > len(rules.All()) || len(r.Last) > LastEvents {
		return fmt.Errorf("%d refusals, %d events", len(r.Refused), len(r.Last))
	}
	for i := range r.Refused {
		f := &r.Refused[i]
		if rule, ok := rules.Named(f.Rule); !ok || rule.Action != rules.Deny && rule.Action != rules.Absent || len(f.Acts) > driver.MostActs || f.Count < 1 {
			return fmt.Errorf("a refusal by the rule %q", watch.Printable(f.Rule))
		}
		for j := range f.Acts {
			f.Acts[j].Syscall, f.Acts[j].Argument = watch.Printable(f.Acts[j].Syscall), watch.Printable(f.Acts[j].Argument)
		}
	}
	for i := range r.Last {
		if err := checkEvent(&r.Last[i]); err != nil {
			return err
		}
	}
	for kind, n := range r.Counts {
		e := watch.Event{Kind: kind}
		if err := checkEvent(&e); err != nil || n < 0 {
			return fmt.Errorf("%d events of kind %q", n, watch.Printable(string(kind)))
		}
	}
	for _, n := range []int64{r.Flags.PidsLimitHit, r.Flags.TmpFull, r.Flags.DiskFull, r.Dropped, int64(r.CPU), r.PeakMemoryBytes, r.Processes, r.AgentBytes} {
		if n < 0 {
			return fmt.Errorf("a count of %d", n)
		}
	}
	r.Message, r.DrainError = watch.Printable(r.Message), watch.Printable(r.DrainError)
	return nil
}

// Package record keeps one record of every run, the refused ones included: what was asked, what was decided, what ran,
// how it ended and what came out, by hash.
//
// A [Record] has a versioned schema, [Schema]. Records live in the store's runs table: [Begin] writes one when its run
// is about to start, [Finish] completes it, [Get] and [List] read. Kept output lies beside them, see [Output]. The package
// keeps no audit trail (package audit does) and decides nothing.
package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gowebpki/jcs"

	"github.com/silk-sandbox/silk/watch"
)

// Schema names the version of [Record]'s JSON form. Fields are added without a new version, never renamed or removed.
const Schema = "silk.run-record/v1"

// Record is the summary of one run. It holds hashes of code and output, never their text, but for what the invoker wrote
// into the arguments of a command, and what was seen before a violation. Host paths appear at most there and in the message of an outcome. All hashes are
// SHA-256 in lower-case hex; times are Unix milliseconds.
type Record struct {
	Schema      string `json:"schema"`
	Run         string `json:"run"` // ULID
	Client      string `json:"client"`
	Profile     string `json:"profile"`
	StartedAtMs int64  `json:"started_at_ms"` // when the request arrived
	EndedAtMs   int64  `json:"ended_at_ms"`   // when the outcome was known; 0 while it runs

	// Command is what was run, for people: the file, -c or - with the language, or the command, and the arguments, on one
	// printable line of at most 4 KiB. Records of earlier versions have none.
	Command string `json:"command"`

	RequestSHA256 string `json:"request_sha256"` // canonical JSON of the request, code by hash
	PolicySHA256  string `json:"policy_sha256"`  // canonical JSON of the decided Policy; empty when refused before
	Policy        Policy `json:"policy"`
	Input         Input  `json:"input"`

	Driver    string            `json:"driver"`
	Image     string            `json:"image"` // digest
	Tools     []Tool            `json:"tools"`
	Isolation map[string]string `json:"isolation,omitempty"` // what held the program, besides the driver's name
	Replay    *Replay           `json:"replay,omitempty"`    // nil: nothing is kept of the request

	Outcome   Outcome    `json:"outcome"`
	Usage     Usage      `json:"usage"`
	Stdout    Channel    `json:"stdout"`
	Stderr    Channel    `json:"stderr"`
	Artifacts []Artifact `json:"artifacts"`
	Decisions []Decision `json:"decisions"`
}

// Policy is what was decided about a run, complete.
type Policy struct {
	TimeoutMs      int64    `json:"timeout_ms"`
	MemoryBytes    int64    `json:"memory_bytes"`
	MilliCPUs      int64    `json:"milli_cpus"`
	Processes      int      `json:"processes"`
	WorkspaceBytes int64    `json:"workspace_bytes"`
	TmpBytes       int64    `json:"tmp_bytes"`
	ShmBytes       int64    `json:"shm_bytes"`
	OutputBytes    int64    `json:"output_bytes"`
	Network        string   `json:"network"`
	Hosts          []string `json:"hosts"`
	NoSpawn        bool     `json:"no_spawn"`
	ReadOnly       bool     `json:"read_only,omitempty"` // only /tmp can be written
	Deterministic  bool     `json:"deterministic"`
	Held           *Held    `json:"held,omitempty"` // what a deterministic run started from
	RequireWatch   bool     `json:"require_watch"`
	Isolation      string   `json:"isolation"`

	Targets   []string          `json:"targets,omitempty"`    // what is not of the public internet and may be reached
	Addrs     map[string]string `json:"addrs,omitempty"`      // where names lead by the owner
	Secrets   []string          `json:"secrets,omitempty"`    // NAME@HOST:PORT/Header, never a value
	OnRefused string            `json:"on_refused,omitempty"` // what an attempt to reach something else does, where there is a way out
}

// Held is what a deterministic run started from.
type Held struct {
	ClockMs int64 `json:"clock_ms"` // Unix milliseconds
	StepNs  int64 `json:"step_ns"`  // by which clocks moved on whenever the program looked
	Seed    int64 `json:"seed"`
}

// Input is what went into the sandbox.
type Input struct {
	CodeSHA256      string `json:"code_sha256"`      // empty: no code, a command only
	WorkspaceSHA256 string `json:"workspace_sha256"` // names, types, modes and contents of the initial workspace
	StdinSHA256     string `json:"stdin_sha256"`     // of the bytes that were handed to the sandbox
	StdinBytes      int64  `json:"stdin_bytes"`
	SHA256          string `json:"sha256"` // of the three above and the command
}

// Tool is one program or package inside an image, from the image's lock.
type Tool struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Outcome says how a run ended; see the outcome table of package run.
type Outcome struct {
	Kind     string `json:"kind"` // empty while it runs
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	ExitCode *int   `json:"exit_code"`
	Signal   int    `json:"signal,omitempty"`
	Phase    string `json:"phase,omitempty"`
	Rule     string `json:"rule,omitempty"`
	Syscall  string `json:"syscall,omitempty"`
	Argument string `json:"argument,omitempty"`

	Flags       map[string]int64     `json:"flags"`
	Refused     map[string]int64     `json:"refused,omitempty"`     // by rule
	Egress      []Destination        `json:"egress,omitempty"`      // what was reached and what was not, 256 at most
	EgressMore  int                  `json:"egress_more,omitempty"` // attempts beyond those
	Watched     map[watch.Kind]int64 `json:"watched,omitempty"`
	Dropped     int64                `json:"dropped,omitempty"`
	Events      []watch.Event        `json:"events,omitempty"`        // of a violation: what was seen before it, 64 at most
	DeadAfterUs int64                `json:"dead_after_us,omitempty"` // of a violation: from the attempt until the sandbox was gone
	WallMs      int64                `json:"wall_ms"`
}

// Destination is one host with one port that the sandbox reached or was kept from, or one name that it looked up.
type Destination struct {
	Kind     string `json:"kind"` // "tcp", "udp" or "dns"
	Host     string `json:"host"` // name as it was looked up, or address
	Port     int    `json:"port,omitempty"`
	Allowed  bool   `json:"allowed"`
	Rule     string `json:"rule,omitempty"` // what refused it
	Reason   string `json:"reason,omitempty"`
	Addr     string `json:"addr,omitempty"` // what was dialled
	Count    int    `json:"count"`
	Sent     int64  `json:"sent"`  // bytes to the host
	Taken    int64  `json:"taken"` // bytes from it
	LastedMs int64  `json:"lasted_ms"`
}

// Usage is what the run used.
type Usage struct {
	CPUMs           int64 `json:"cpu_ms"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	Processes       int64 `json:"processes"`
}

// Channel is one output channel.
type Channel struct {
	Bytes     int64  `json:"bytes"` // everything that the program wrote
	Kept      int64  `json:"kept"`  // the first ones, which [Output] returns
	Truncated bool   `json:"truncated"`
	SHA256    string `json:"sha256"` // of everything
}

// Artifact is one file that the run made or changed under /workspace.
type Artifact struct {
	Path    string `json:"path"`
	PathB64 string `json:"path_b64,omitempty"`
	Type    string `json:"type"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256,omitempty"`
	MIME    string `json:"mime,omitempty"`
	Display string `json:"display,omitempty"` // type of the result that the program showed by it
	Omitted string `json:"omitted,omitempty"`
}

// Decision is one thing that somebody or something decided about the run.
type Decision struct {
	What string `json:"what"` // "grant", "driver", "denied", ...
	Text string `json:"text"`
}

// Hash is the SHA-256 of the canonical JSON (RFC 8785) of v, in lower-case hex.
func Hash(v any) (string, error) {
	text, err := json.Marshal(v)
	if err == nil {
		text, err = jcs.Transform(text)
	}
	if err != nil {
		return "", fmt.Errorf("hash %T: %w", v, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// maxExact is the largest number that canonical JSON, whose numbers are float64, holds exactly: RFC 8785, section 3.2.2.3.
// A program can make a sparse file that is larger; its size then reads as this one.
const maxExact = 1<<53 - 1

// encode is the stored form of r: canonical JSON, in which empty lists are [] and not null.
func (r Record) encode() (string, error) {
	r.Schema = Schema
	r.Artifacts = slices.Clone(r.Artifacts)
	for i := range r.Artifacts {
		bound(&r.Artifacts[i].Size)
	}
	bound(&r.Policy.TimeoutMs, &r.Policy.MemoryBytes, &r.Policy.MilliCPUs, &r.Policy.WorkspaceBytes, &r.Policy.TmpBytes, &r.Policy.ShmBytes, &r.Policy.OutputBytes)
	if r.Policy.Hosts == nil {
		r.Policy.Hosts = []string{}
	}
	if r.Tools == nil {
		r.Tools = []Tool{}
	}
	if r.Artifacts == nil {
		r.Artifacts = []Artifact{}
	}
	if r.Decisions == nil {
		r.Decisions = []Decision{}
	}
	if r.Outcome.Flags == nil {
		r.Outcome.Flags = map[string]int64{}
	}
	text, err := json.Marshal(r)
	if err == nil {
		text, err = jcs.Transform(text)
	}
	if err != nil {
		return "", fmt.Errorf("encode record of run %s: %w", r.Run, err)
	}
	return string(text), nil
}

func bound(numbers ...*int64) {
	for _, n := range numbers {
		*n = min(*n, maxExact)
	}
}

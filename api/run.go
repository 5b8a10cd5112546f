package api

import "encoding/json"

// RunRequest is what a client wants to be run. What is left out, the profile decides.
type RunRequest struct {
	Profile  string `json:"profile,omitempty" maxLength:"64" doc:"Name of a profile; left out, the language decides" example:"lab:python"`
	Language string `json:"language,omitempty" maxLength:"32" doc:"Language of the code, by fence name or extension" example:"python"`

	Code    *string  `json:"code,omitempty" maxLength:"16777216" doc:"The program. Left out, args is the whole command" example:"print(6*7)"`
	CodeB64 *string  `json:"code_b64,omitempty" contentEncoding:"base64" doc:"The program, in base64, if it is not UTF-8"`
	Name    string   `json:"name,omitempty" maxLength:"4096" doc:"Path of the code below /workspace; left out, the language gives one"`
	Args    []string `json:"args,omitempty" maxItems:"10000" doc:"Arguments of the code, or the command" example:"[\"--top\",\"10\"]"`
	Files   []File   `json:"files,omitempty" maxItems:"10000" doc:"Files put into /workspace before the start"`
	Env     []string `json:"env,omitempty" maxItems:"1000" doc:"KEY=VALUE, added to the profile's"`

	// Stdin is either whole, in the request, or open: what is sent to the run later.
	Stdin     *string `json:"stdin,omitempty" doc:"All of the program's input; left out and stdin_open false, it is empty"`
	StdinOpen bool    `json:"stdin_open,omitempty" doc:"The program's input is sent while it runs"`
	Terminal  *Size   `json:"terminal,omitempty" doc:"Give the program a terminal of this size; stdout is its only channel"`

	Limits        Limits   `json:"limits,omitzero"`
	Network       string   `json:"network,omitempty" enum:"deny,loopback,allow,allowlist" doc:"Left out, the profile's"`
	Hosts         []string `json:"hosts,omitempty" maxItems:"100" doc:"host:port, for allowlist"`
	Secrets       []string `json:"secrets,omitempty" maxItems:"100" doc:"NAME@HOST:PORT/Header: requests to HOST get Header with the value of the secret NAME, which the program never has. The owner's configuration declares NAME (egress: secrets), and has its value; each use waits for an approval" example:"[\"API_TOKEN@api.example.org:443/Authorization\"]"`
	NoSpawn       bool     `json:"no_spawn,omitempty" doc:"The program may start no process"`
	Deterministic bool     `json:"deterministic,omitempty"`
	Isolation     string   `json:"isolation,omitempty" enum:"microvm"`
	RequireWatch  bool     `json:"require_watch,omitempty"`
	Driver        string   `json:"driver,omitempty" maxLength:"32"`

	Session string `json:"session,omitempty" maxLength:"26" doc:"Session that the run belongs to"`

	// Where in a vault the code is from: told to those whom the run is handed on to, and no part of the request's hash.
	Note  string `json:"note,omitempty" maxLength:"1024" doc:"Path, in its vault, of the note that the code is from. It decides nothing: it stands in hand-offs" example:"Lab/Tour.md"`
	Block string `json:"block,omitempty" maxLength:"256" doc:"Names the code block in that note, for hand-offs"`

	Client string `json:"client,omitempty" enum:"note,mcp" doc:"The door that the request came through, if it is not this API: for mcp, what is beyond the profile is refused, where others may ask the owner"`
}

// Preview is what would happen to a request, without anything happening.
type Preview struct {
	Denial   *Denial         `json:"denial,omitempty" doc:"It would be refused. Of rule approval: it would wait for the owner"`
	Hash     string          `json:"hash,omitempty" doc:"Of the plan"`
	Driver   string          `json:"driver,omitempty"`
	Image    string          `json:"image,omitempty" doc:"Digest"`
	Plan     json.RawMessage `json:"plan,omitempty" doc:"Everything that was decided; absent if refused whoever approves"`
	Notes    []string        `json:"notes" doc:"What this host cannot enforce, or enforces otherwise"`
	Enforced []Enforcement   `json:"enforced" doc:"What ends the run, and what fails in it"`
}

// Denial is a refusal.
type Denial struct {
	Rule   string `json:"rule"`
	Detail string `json:"detail" doc:"What was asked and what would be allowed; further refusals of the same request too"`
	Fix    string `json:"fix,omitempty"`
}

// Enforcement is one thing that a program cannot do.
type Enforcement struct {
	What string `json:"what"`
	Rule string `json:"rule,omitempty" doc:"That ends the run; absent: it fails and the run goes on"`
}

// File is one file of a request.
type File struct {
	Path       string  `json:"path" minLength:"1" maxLength:"4096" doc:"Below /workspace, with slashes, plain"`
	Text       *string `json:"text,omitempty" doc:"Its content, if it is UTF-8"`
	B64        *string `json:"b64,omitempty" contentEncoding:"base64" doc:"Its content otherwise"`
	Link       *string `json:"link,omitempty" minLength:"1" maxLength:"4096" doc:"It is a symbolic link to this, which is kept as it is and means what it means in the sandbox"`
	Directory  bool    `json:"directory,omitempty" doc:"It is a directory. Those that lead to other files need not be named"`
	Executable bool    `json:"executable,omitempty" doc:"Its permissions are 0755, in place of 0644"`
	Mode       int     `json:"mode,omitempty" minimum:"1" maximum:"511" doc:"Its permissions, if they are others: 384 is 0600"`
}

// Size is that of a terminal in character cells.
type Size struct {
	Columns uint16 `json:"columns" minimum:"1" maximum:"65535"`
	Rows    uint16 `json:"rows" minimum:"1" maximum:"65535"`
}

// Limits are what a run may use. Zero and absent mean the profile's.
type Limits struct {
	TimeoutMs      int64   `json:"timeout_ms,omitempty" minimum:"1"`
	MemoryBytes    int64   `json:"memory_bytes,omitempty" minimum:"1"`
	CPUs           float64 `json:"cpus,omitempty" exclusiveMinimum:"0"`
	Processes      int     `json:"processes,omitempty" minimum:"1"`
	WorkspaceBytes int64   `json:"workspace_bytes,omitempty" minimum:"1"`
	TmpBytes       int64   `json:"tmp_bytes,omitempty" minimum:"1"`
	ShmBytes       int64   `json:"shm_bytes,omitempty" minimum:"1"`
	OutputBytes    int64   `json:"output_bytes,omitempty" minimum:"1"`
}

// State is where a run is.
type State string

const (
	StatePending State = "pending" // it waits for the owner's approval
	StateQueued  State = "queued"  // it waits for its turn
	StateRunning State = "running"
	StateEnded   State = "ended" // its outcome is known
)

// Run is one run as a client sees it.
type Run struct {
	ID      string `json:"run" doc:"ULID: sorts by time"`
	State   State  `json:"state" enum:"pending,queued,running,ended"`
	Profile string `json:"profile"`
	Client  string `json:"client" doc:"The door that it came through: cli, api, note or mcp"`
	Command string `json:"command,omitempty" doc:"What was asked for, on one line, for people"`
	Session string `json:"session,omitempty"`

	AcceptedAtMs int64 `json:"accepted_at_ms"`
	StartedAtMs  int64 `json:"started_at_ms,omitempty"`
	EndedAtMs    int64 `json:"ended_at_ms,omitempty"`

	Position int   `json:"position,omitempty" doc:"In the queue; 1 is next"`
	EtaMs    int64 `json:"eta_ms,omitempty" doc:"Until it starts, guessed; absent: unknown"`

	Hash    string   `json:"hash,omitempty" doc:"Of the request: what an approval is for"`
	Outcome *Outcome `json:"outcome,omitempty" doc:"Once it has ended"`
}

// Page is one page of a list. Next is absent on the last one.
type Page[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty" doc:"Pass it as cursor to get the next page"`
}

// Input is a piece of a program's input.
type Input struct {
	Data string `json:"data,omitempty"`
	B64  string `json:"b64,omitempty" contentEncoding:"base64"`
	End  bool   `json:"end,omitempty" doc:"Nothing follows: the program sees the end of its input"`

	Offset *int64 `json:"offset,omitempty" minimum:"0" doc:"How many bytes of input were sent before. A piece with it can be sent again when no answer came: it is not taken twice"`
}

// InputTaken is the answer to a piece of input.
type InputTaken struct {
	Offset int64 `json:"offset" doc:"Where the next piece begins: bytes of input that the run has got"`
}

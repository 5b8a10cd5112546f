package api

// Outcome says how a run ended. The first line of the table of outcomes in docs/outcomes.md has the kinds.
type Outcome struct {
	Kind     string `json:"outcome" enum:"ok,failed,timeout,oom,violated,denied,canceled,error" doc:"How the run ended"`
	Reason   string `json:"reason,omitempty" enum:"host,usage,missing" doc:"Of an error: whose fault it is"`
	Message  string `json:"message,omitempty" doc:"One sentence for people"`
	ExitCode *int   `json:"exit_code" doc:"Status of the program; null after a signal and when no program ran"`
	Signal   int    `json:"signal,omitempty" doc:"That ended the program"`
	Phase    string `json:"phase,omitempty" enum:"compile" doc:"Set when the compiler failed"`

	Rule     string `json:"rule,omitempty" doc:"Of a violation or denial"`
	Syscall  string `json:"syscall,omitempty"`
	Argument string `json:"argument,omitempty"`

	Stdout    Channel          `json:"stdout"`
	Stderr    Channel          `json:"stderr"`
	Artifacts []Artifact       `json:"artifacts"`
	Flags     map[string]int64 `json:"flags" doc:"Limits that were hit without ending the run, with numbers"`
	Refused   map[string]int64 `json:"refused,omitempty" doc:"Calls that a rule refused while the run went on, by rule"`

	Egress     []Destination `json:"egress,omitempty" doc:"What the program reached and what it was kept from, where the sandbox has a way out, refusals first"`
	EgressMore int           `json:"egress_more,omitempty" doc:"Attempts to reach something beyond the 256 destinations that are listed"`

	WallMs int64  `json:"wall_ms"`
	Usage  Usage  `json:"usage"`
	Run    string `json:"run"`
	Driver string `json:"driver,omitempty"`
	Image  string `json:"image,omitempty" doc:"Digest"`
}

// Destination is one host with one port that the program reached or was kept from, or one name that it looked up.
type Destination struct {
	Kind     string `json:"kind" enum:"tcp,udp,dns" doc:"dns is a look-up"`
	Host     string `json:"host" doc:"Name as it was looked up, or address"`
	Port     int    `json:"port,omitempty"`
	Allowed  bool   `json:"allowed"`
	Rule     string `json:"rule,omitempty" doc:"What refused it: name, port, address, protocol, udp, connections"`
	Reason   string `json:"reason,omitempty" doc:"For people"`
	Addr     string `json:"addr,omitempty" doc:"Address that was dialled"`
	Count    int    `json:"count" doc:"How often"`
	Sent     int64  `json:"sent" doc:"Bytes to the host"`
	Taken    int64  `json:"taken" doc:"Bytes from the host"`
	LastedMs int64  `json:"lasted_ms" doc:"Connections together"`
}

// Channel is what is known of stdout or stderr when the run has ended.
type Channel struct {
	Bytes     int64  `json:"bytes" doc:"Everything that the program wrote"`
	Truncated bool   `json:"truncated" doc:"Only the first part is kept"`
	SHA256    string `json:"sha256" doc:"Of everything that was written"`
}

// Artifact is one file that the run made or changed under /workspace.
type Artifact struct {
	Path    string `json:"path"`
	PathB64 string `json:"path_b64,omitempty" doc:"When the name is not UTF-8; path has U+FFFD in it then"`
	Type    string `json:"type" doc:"file, link, fifo, socket or device"`
	Size    int64  `json:"size"`
	SHA256  string `json:"sha256,omitempty"`
	MIME    string `json:"mime,omitempty"`
	Display string `json:"display,omitempty" doc:"Type of the result that the program shows by this file, checked; the files that have one come first, in their order"`
	Omitted string `json:"omitted,omitempty" doc:"Why the content was not kept"`
}

// Usage is what the run used.
type Usage struct {
	CPUMs           int64 `json:"cpu_ms"`
	PeakMemoryBytes int64 `json:"peak_memory_bytes"`
	Processes       int64 `json:"processes"`
}

package api

import (
	"encoding/base64"
	"unicode/utf8"
)

// Subprotocol is the WebSocket subprotocol of streams of frames.
const Subprotocol = "silk.v1"

// FrameType names what a [Frame] says.
type FrameType string

const (
	FrameHello     FrameType = "hello"     // the first one: what the stream is of, and where its output begins
	FrameQueued    FrameType = "queued"    // it waits: Position, EtaMs
	FrameStarted   FrameType = "started"   // the program is about to run: AtMs
	FrameOutput    FrameType = "output"    // a piece of one channel
	FrameProgress  FrameType = "progress"  // a step of the start: Step
	FrameViolation FrameType = "violation" // policy ended the sandbox: Rule, Syscall, Detail
	FrameEgress    FrameType = "egress"    // something was dialled or refused: Kind, Host, Port, Allowed, Rule, Detail
	FrameApproval  FrameType = "approval"  // it waits for the owner, or the owner has decided: State, Detail
	FrameDisplay   FrameType = "display"   // an artifact that is a result: MIME, Path; all of them before exit, in their order
	FrameGap       FrameType = "gap"       // bytes From to To of Channel are not to be had any more
	FrameExit      FrameType = "exit"      // the last one of a run: Outcome. A stream without it ended for another reason
	FrameInput     FrameType = "input"     // the answer to a command with Offset: bytes of input that the run has got; if refused, Detail says why
	FramePing      FrameType = "ping"      // nothing; that the connection lives
)

// Frame is one message of a stream, server to client. Fields that a type does not name are absent.
type Frame struct {
	Type FrameType `json:"type"`
	Run  string    `json:"run,omitempty"` // in every frame but ping

	// Of hello; the driver of started too.
	State    string `json:"state,omitempty"` // of the run: pending, queued, running, ended; of an approval: see Approval
	Profile  string `json:"profile,omitempty"`
	Driver   string `json:"driver,omitempty"`
	TailFrom *Tail  `json:"tail_from,omitempty"` // offsets at which the output that follows begins
	Followed bool   `json:"followed,omitempty"`  // the program waits for this viewer, who sends acks

	// Of output: a piece of one channel. Pieces of one channel follow each other without a gap, unless a gap frame says so.
	Seq     uint64 `json:"seq,omitempty"`   // common to both channels of a run, from 1; grows, but not by one where pieces were joined
	AtMs    *int64 `json:"at_ms,omitempty"` // milliseconds since the program started; also of started, since 1970
	Channel string `json:"channel,omitempty"`
	Offset  *int64 `json:"offset,omitempty"` // of the first byte in its channel; of input: see there
	Data    string `json:"data,omitempty"`   // if it is valid UTF-8 and not mostly control characters
	B64     string `json:"b64,omitempty"`    // otherwise, standard base64

	// Of gap: the range [From, To) of Channel.
	From *int64 `json:"from,omitempty"`
	To   *int64 `json:"to,omitempty"`

	// Of queued.
	Position int   `json:"position,omitempty"` // 1: next
	EtaMs    int64 `json:"eta_ms,omitempty"`   // guessed from runs before; absent: unknown

	// Of violation, progress, egress, approval, display.
	Rule    string `json:"rule,omitempty"`
	Syscall string `json:"syscall,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Step    string `json:"step,omitempty"`
	Kind    string `json:"kind,omitempty"` // of egress: tcp, udp, or dns for a look-up
	Host    string `json:"host,omitempty"`
	Port    int    `json:"port,omitempty"`
	Allowed *bool  `json:"allowed,omitempty"`
	MIME    string `json:"mime,omitempty"`
	Path    string `json:"path,omitempty"`

	// Of exit.
	Outcome *Outcome `json:"outcome,omitempty"`
}

// Tail is an offset for each channel.
type Tail struct {
	Stdout int64 `json:"stdout"`
	Stderr int64 `json:"stderr"`
}

// SetBytes puts p into Data or B64.
func (f *Frame) SetBytes(p []byte) {
	f.Data, f.B64 = "", ""
	if utf8.Valid(p) {
		f.Data = string(p)
	} else {
		f.B64 = base64.StdEncoding.EncodeToString(p)
	}
}

// Bytes returns what Data or B64 holds.
func (f *Frame) Bytes() ([]byte, error) {
	if f.B64 == "" {
		return []byte(f.Data), nil
	}
	return base64.StdEncoding.DecodeString(f.B64)
}

// Command is one message of a client to the server, on the same WebSocket. Unknown types are answered by closing the connection
// with status 1003 (RFC 6455 section 7.4.1).
type Command struct {
	Type    string `json:"type"`          // stdin, stdin_end, resize, cancel, ack
	Run     string `json:"run,omitempty"` // needed on the stream of a session
	Data    string `json:"data,omitempty"`
	B64     string `json:"b64,omitempty"`
	Offset  *int64 `json:"offset,omitempty"` // of stdin and stdin_end, as of Input; it is answered by a frame input
	Columns uint16 `json:"columns,omitempty"`
	Rows    uint16 `json:"rows,omitempty"`

	// Of ack: how many bytes of each channel have arrived, so that the program may go on. See Followed of Frame.
	Stdout int64 `json:"stdout,omitempty"`
	Stderr int64 `json:"stderr,omitempty"`
}

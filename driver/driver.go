// Package driver is the contract between a run and the technology that isolates it.
//
// A [Driver] starts one sandbox for one run from a [Spec]: paths, descriptors and numbers, all decided before. A
// [Sandbox] is waited for once and leaves nothing behind. The package holds no policy and starts no process itself;
// driver/gvisor and its siblings do, and driver/drivertest holds every one of them to the same behaviour.
package driver

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"time"

	"github.com/silk-sandbox/silk/watch"
)

// Driver starts sandboxes with one technology. Safe for concurrent use.
type Driver interface {
	// Name is the word that users write after --driver, such as "gvisor".
	Name() string

	// Start makes a sandbox for spec and starts its program. On error nothing is left behind: no process, mount,
	// cgroup or directory, and the program has not run. Cancelling ctx before Start returns aborts the start;
	// afterwards ctx has no effect, use [Sandbox.Kill].
	Start(ctx context.Context, spec Spec) (Sandbox, error)
}

// Sandbox is one started sandbox. It lives until its program ends or [Sandbox.Kill] is called.
type Sandbox interface {
	// Wait returns when the sandbox is gone: every process ended, the workspace drained, all host resources
	// released. It is called exactly once. An error means that the driver or the host failed and the program's
	// own end is unknown; Exit still carries what is known.
	Wait() (Exit, error)

	// Kill ends every process in the sandbox. With KillDrain the workspace is still drained if the sandbox's own
	// kernel answers within two seconds. Safe to call more than once, at any time, from any goroutine.
	Kill(how KillMode)
}

// KillMode says what is still wanted of a sandbox that is being killed.
type KillMode int

const (
	KillDrain KillMode = iota // drain the workspace, then end
	KillNow                   // end at once; the workspace is lost
)

// Resizer is implemented by sandboxes with a terminal.
type Resizer interface {
	// Resize sets the size of the terminal in character cells and tells the foreground process group (SIGWINCH).
	Resize(columns, rows uint16) error
}

// Signaler is implemented by sandboxes whose program can be sent a signal from outside.
type Signaler interface {
	// Signal sends signal number n, as in signal(7), to the main process as kill(2) would. Once it has ended, nothing happens.
	Signal(n int) error
}

// Network is what a sandbox may reach.
type Network string

const (
	NetworkDeny     Network = "deny"     // creating an INET socket is a violation
	NetworkLoopback Network = "loopback" // INET sockets exist; nothing but 127.0.0.0/8 and ::1 answers
	NetworkLink     Network = "link"     // INET sockets exist; what is not for 127.0.0.0/8 and ::1 goes through Spec.Link
)

// Link is a sandbox's only way out: whoever has its other end decides what becomes of the packets.
type Link struct {
	File  *os.File     // a SOCK_SEQPACKET socket, each message of which is one IP packet; stays owned by the caller
	Addrs []netip.Addr // the sandbox's own addresses on it
	MTU   int          // size of the largest packet, in bytes
}

// File is a file that is supplied at the start and read-only: it lies over the one of that name in the image, which must exist.
type File struct {
	Path    string // absolute and clean
	Content []byte
	After   bool // what the image's own has comes before Content; without one there is none
}

// Spec is a sandbox ready to start. Everything in it was decided by policy and prepared by the engine; a driver adds
// nothing and looks nothing up.
type Spec struct {
	ID    string   // run id, [A-Za-z0-9-]; names cgroups and the like
	Image *os.File // EROFS root filesystem, open read-only; stays owned by the caller

	Args     []string // command; Args[0] is looked up in the sandbox's PATH
	Env      []string // the whole environment, KEY=VALUE
	Dir      string   // working directory, absolute
	Hostname string

	Network Network
	Link    Link   // with NetworkLink
	Files   []File // laid over the image
	// Trees are the parts of the image that programs may read, each with everything below it: absolute, clean paths.
	// What lies outside, and is neither writable nor in the start-up list of driver/rules, is not readable.
	Trees []string

	// ReadOnly leaves /tmp as the only place that can be written: /workspace is what Fill wrote, ShmBytes is 0, and nothing can be put into /dev/shm.
	ReadOnly bool

	NoSpawn bool // threads yes; processes and a second exec EPERM

	// Held is what a deterministic run starts from: the program sees one processor, these times and these random numbers. A driver that
	// cannot hold them still refuses it, [NotHeld]. nil: any other run.
	Held *Held

	MemoryBytes    int64 // guest memory: anonymous, /tmp and /dev/shm pages; beyond it Exit.OOM
	WorkspaceBytes int64 // size of /workspace; ENOSPC beyond
	TmpBytes       int64 // size of /tmp; ENOSPC beyond
	ShmBytes       int64 // size of /dev/shm; ENOSPC beyond
	Processes      int   // processes and threads at most; EAGAIN beyond
	CPUs           float64

	// RequireWatch refuses the start ([Unheld]) unless the host's kernel watches the sandbox besides.
	RequireWatch bool

	// Mounts are read-only file systems laid over directories of /workspace, in this order.
	Mounts []Mount

	// Stdin may be nil: end of file at once. Stdout and Stderr are pipes or sockets, never regular files (the Sentry
	// would write from offset 0). They stay owned by the caller, who closes its copies after Start.
	Stdin, Stdout, Stderr *os.File

	// Terminal, if not nil, is the replica side of a pty and takes the place of the three above.
	Terminal *os.File

	// Fill writes the initial workspace as a tar stream (names relative to /workspace). nil means empty. It runs
	// before the first instruction of the program; its error fails Start.
	Fill func(w io.Writer) error

	// Drain reads the final workspace as a tar stream after the last process has ended. nil means unwanted. It may be
	// called, and then block in its first read, before Fill has returned.
	// Everything in it was made by the program: names, links and sizes are hostile. Directories, and files that are
	// still what Fill wrote, may be left out. Its error is returned by Wait; a stream that the sandbox cut short is
	// Exit.DrainErr.
	Drain func(r io.Reader) error

	// Events, if not nil, receives what was seen in the sandbox, in order, from one goroutine, a fraction of a second late.
	// While it is slow events are dropped and counted; the program never waits for it.
	Events func(watch.Event)

	// Trace, if not nil, receives the steps of the start as they happen, from any goroutine.
	Trace func(step string, at time.Time)
}

// Held is what a deterministic run starts from.
type Held struct {
	ClockMs int64 `json:"clock_ms"` // the time at the start, Unix milliseconds
	StepNs  int64 `json:"step_ns"`  // by which clocks move on whenever the program looks; besides, they move on as it waits
	Seed    int64 `json:"seed"`     // of all random numbers that the program gets
}

// NotHeld is the refusal of a deterministic run by a driver that cannot hold clock and random numbers still.
func NotHeld(name string) *Unheld {
	return &Unheld{
		Promise: "deterministic", Detail: "the driver " + name + " cannot hold clocks and random numbers still",
		Fix: "ask for the driver gvisor, or do not ask for a deterministic run",
	}
}

// Unheld is returned by Start when this host cannot keep a promise of the spec. It is a refusal, not a malfunction: no
// code ran, and the user can do something about it.
type Unheld struct {
	Promise string // "cpus", "memory", ...
	Detail  string // one sentence
	Fix     string // what the user can do
}

func (u *Unheld) Error() string { return u.Detail + "; " + u.Fix }

// Mount is one read-only file system in a sandbox.
type Mount struct {
	Image  *os.File // EROFS, open read-only; stays owned by the caller
	Target string   // absolute, below /workspace
}

// Exit says how a sandbox ended. At most one of OOM and Violation is set; both come from counters and records that
// the program cannot write to, never from its exit status.
type Exit struct {
	Code      int        // exit status 0-255; meaningless if Signal is not 0
	Signal    int        // signal that ended the main process, or 0
	OOM       bool       // the memory limit ended the sandbox
	Violation *Violation // the rule that ended the sandbox
	Killed    bool       // Sandbox.Kill ended the sandbox before the program did
	NotFound  bool       // the command does not exist or cannot be executed; Code is 127 or 126, Message says why
	Message   string     // for NotFound: one sentence for stderr

	Flags   Flags
	Refused []Refusal // by rule
	Watched Watched
	Usage   Usage

	DrainErr error // the workspace did not arrive whole
}

// Violation is a forbidden act that ended the sandbox before it had an effect.
type Violation struct {
	Rule     string `json:"rule"`     // a name of driver/rules
	Syscall  string `json:"syscall"`  // name as in syscalls(2)
	Argument string `json:"argument"` // resolved path, address family, ...; printable, at most 4096 bytes
}

func (v *Violation) String() string { return fmt.Sprintf("%s: %s(%s)", v.Rule, v.Syscall, v.Argument) }

// Flags counts limits that were hit without ending the run.
type Flags struct {
	PidsLimitHit int64 // refused forks and threads
	TmpFull      int64 // writes to /tmp or /dev/shm refused with ENOSPC
	DiskFull     int64 // writes to /workspace refused with ENOSPC
}

// Refusal is what one rule has refused with an errno; the run went on.
type Refusal struct {
	Rule  string `json:"rule"` // a name of driver/rules
	Count int64  `json:"count"`
	Acts  []Act  `json:"acts"` // the first few different ones, MostActs at most
}

// MostActs is how many different acts a refusal has.
const MostActs = 8

// Watched is what the sandbox's monitor has seen.
type Watched struct {
	Counts  map[watch.Kind]int64
	Dropped int64         // events that were not delivered; they are in no count
	Last    []watch.Event // before a violation, the newest last; at most 64
	Host    bool          // the host's kernel watched besides
}

// Act is what a program tried.
type Act struct {
	Syscall  string `json:"syscall"`
	Argument string `json:"argument,omitempty"` // as in Violation
}

// Usage is what the run used.
type Usage struct {
	CPU             time.Duration // user and system time of the whole sandbox, its kernel included
	PeakMemoryBytes int64         // highest sampled guest memory
	Processes       int64         // processes and threads started, the first one included
}

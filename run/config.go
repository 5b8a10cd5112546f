package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/alert"
	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/replay"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/watch"
)

// Config is what an [Engine] is made of. Home, Decide, Images and at least one driver are needed for a run; without a
// driver every run ends as [Error] with [ReasonMissing].
type Config struct {
	// Home is the state directory, which must exist. silk.db, runs/ and engines/ are made in it.
	Home string

	// Store is the state, if it is not silk.db in Home: the database that the servers of a service share. The caller closes
	// it, after the engine. nil: the engine opens the file.
	Store *store.DB

	// Server is this server's name in Store: it stands in the records of runs that have no end yet. Needed with a Store that
	// is shared, and no other server has it. It has no slash.
	Server string

	// Alive says whether another server may still run its runs. nil: it may, so their records are left alone.
	Alive func(server string) bool

	// Decide turns a request into a plan: policy.Decide with the owner's profiles and grants. A [*policy.Denial] is
	// a refusal, any other error a request that cannot be read. It is called once for each run and must be pure.
	Decide func(policy.Request) (policy.Plan, error)

	// Stores are the directories below which the sources of mounts may lie, as in policy.Grants: the engine looks
	// again after it has resolved links.
	Stores []string

	// Drivers in the order in which "auto" prefers them: the first one is used that keeps what the plan promises (see Holder).
	Drivers []driver.Driver

	Images Images

	// Egress opens ways out of sandboxes. nil: a plan with one is refused.
	Egress Egress

	// Secret finds the value of a secret of a plan by its name. nil: a plan with secrets is refused.
	Secret func(name string) (string, error)

	// Authorities are certificates, in PEM, of whom to trust besides the host's own where the gateway stands in for a host.
	Authorities []byte

	// Snapshot packs a host directory or file into a read-only EROFS file that nobody else can open, for
	// Plan.Mounts; the engine closes it. nil: a plan with mounts is refused.
	Snapshot func(ctx context.Context, path string) (*os.File, error)

	// Alert tells the owner of a violation, once its record is written. Its error does not change the outcome; Run
	// returns it. nil: nobody is told.
	Alert func(context.Context, alert.Alert) error

	// Sweep removes what an earlier crash left. New starts it in the background; nil means nothing to sweep.
	Sweep func(ctx context.Context) error

	// Handoffs passes on runs that did not end as they should, those of engines that died too. nil: nothing is passed on.
	Handoffs Handoffs

	// Salvage returns what somebody else kept of a channel's output while it flowed, for the record of a run whose engine
	// was killed: that engine's own copy was in its memory. nil, and an empty answer: nothing was kept.
	Salvage Salvage

	// Signer signs the records of runs when they have ended, those of engines that died too. nil: nobody does.
	Signer record.Signer

	// KeepBytes is how much is kept of the workspace and of the input of a run, each, so that it can be replayed; what is longer is not
	// kept. 0: replay.DefaultBytes; below: nothing is.
	KeepBytes int64

	// Version of silk, for records.
	Version string

	// Audit says when old audit events move into files; a new engine sees to it in the background.
	Audit audit.Policy

	// Logger is for operators. nil discards.
	Logger *slog.Logger
}

// Salvage returns what was kept of one channel of a run.
type Salvage func(run, channel string) ([]byte, error)

// Images finds root file systems.
type Images interface {
	// Open resolves a tag or digest. An error that is fs.ErrNotExist means that there is no such image; its text
	// says how to get it. Open does not read the image's content.
	Open(ctx context.Context, ref string) (Image, error)
}

// Image is an open root file system.
type Image struct {
	Digest string        // "sha256:" and 64 hex digits
	Root   *os.File      // EROFS, open read-only; the engine closes it
	Tools  []record.Tool // what the image's lock says is inside
	Trees  []string      // what programs may read of it
}

// Preparer is implemented by drivers that can boot a part of a sandbox before anything about the run is known. The
// engine calls Prepare as soon as the request is decided, so that the boot overlaps with opening the store, finding the
// image and looking at the input.
type Preparer interface {
	// Prepare returns at once. What it starts has seen no code, no input and no image, and serves one Start at
	// most. release ends it if no Start took it; it is called once.
	Prepare(ctx context.Context) (release func())
}

// Holder is implemented by drivers that there are promises which they never keep. Where no driver is named, the next one is used for those.
type Holder interface {
	// Holds returns a [*driver.Unheld] for a spec that it does not take. It asks nobody, and is quick.
	Holds(spec driver.Spec) error
}

// Teller is implemented by drivers that know what holds the programs of their sandboxes.
type Teller interface {
	// Facts are facts about it, by name, that records of all its runs have: the technology, and which kernel or machine it is. It asks
	// nobody, and is quick.
	Facts() map[string]string
}

// Prober is implemented by drivers that know what they cannot enforce on this host.
type Prober interface {
	// Probe returns one sentence for each promise of spec that the driver does not keep here, or keeps in another
	// way than its usual one. An error means that the driver is not usable at all, and says what is missing. spec
	// has no descriptors.
	Probe(ctx context.Context, spec driver.Spec) (notes []string, err error)
}

// Size is the size of a terminal in character cells.
type Size struct{ Columns, Rows uint16 }

// IO connects one run to its caller. Its zero value gives the program an empty stdin and keeps what it prints.
type IO struct {
	// Run is the id of the run, an upper-case ULID that no other run has; empty: a new one. With OnStart and OnFrame the
	// caller may have told others of it before the engine knows of the run.
	Run string

	// Decisions are what was decided about the run before it came here: who asked, who approved. They stand in its record.
	Decisions []record.Decision

	// Note is where the code comes from, for [Handoffs]. Zero: from no note.
	Note Note

	// Stdin is copied into the sandbox if the plan has Stdin or Terminal; nil is at its end. A Read that still waits
	// when the run has ended is left behind, unless Stdin is an *os.File on Linux.
	Stdin io.Reader

	// Before is called, beside the start of the sandbox, before the first instruction of the program, which waits for it. Its
	// error ends the run as [Error], and no code has run. nil: none.
	Before func() error

	// OnStart is called once, before the first instruction of the program and before OnFrame, when the start is
	// recorded. A refused run has none; one whose sandbox cannot be started may have it. nil: none.
	OnStart func(Started)

	// OnFrame receives output as it arrives, one call at a time, and slows the program down if it is slow. nil: none.
	OnFrame func(Frame)

	// OnGone is called when the sandbox is gone, before the last output comes: what was left in pipes, a few MiB at most. An
	// OnFrame that blocks holds up the end of the run from then on, not the program. nil: none.
	OnGone func()

	// OnEvent receives what was seen in the sandbox as it happens, in order, from a goroutine of its own. nil: none, and
	// the events are only counted.
	OnEvent func(watch.Event)

	// OnEgress receives what was decided about an attempt to reach something, as it happens: a connection that was allowed when it has ended, a
	// refusal at once, the same one once a minute with a count. One call at a time, from a goroutine of its own; what it is a thousand behind with it does not get,
	// and the outcome has. nil: none.
	OnEgress func(egress.Decision)

	// OmitText leaves Channel.Text and B64 of the outcome empty, which saves memory for callers that have OnFrame.
	OmitText bool

	// Resize carries the size of the caller's terminal: one value at once, then each change. Only with
	// Request.Terminal. It need not be closed.
	Resize <-chan Size

	// Signals carries numbers of signals, as in signal(7), for the main process of the program. A driver that is no driver.Signaler
	// drops them. nil: none. It need not be closed.
	Signals <-chan int

	// Artifacts is a directory that receives copies of the artifacts, made if missing. Empty: they are only listed.
	Artifacts string

	// Trace receives the steps of the start as they happen, from any goroutine. nil: none.
	Trace func(step string, at time.Time)
}

// StepRuns is the step of a start at which the program runs.
const StepRuns = "program runs"

// Preview is the answer to "what would happen": a plan and what this host makes of it.
type Preview struct {
	Plan   policy.Plan `json:"plan"`
	Driver string      `json:"driver"`
	Image  string      `json:"image"` // digest
	Notes  []string    `json:"notes"` // what the driver cannot enforce here, or enforces otherwise
}

func (c Config) withDefaults() Config {
	if c.KeepBytes == 0 {
		c.KeepBytes = replay.DefaultBytes
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	var faults []error
	if !filepath.IsAbs(c.Home) {
		faults = append(faults, fmt.Errorf("state directory %q is not an absolute path", c.Home))
	}
	if strings.Contains(c.Server, "/") || c.Store != nil && c.Store.Shared() && c.Server == "" {
		faults = append(faults, fmt.Errorf("%q is no name of a server in a database that servers share", c.Server))
	}
	if c.Decide == nil {
		faults = append(faults, errors.New("no Decide"))
	}
	if c.Images == nil {
		faults = append(faults, errors.New("no Images"))
	}
	for i, d := range c.Drivers {
		if d == nil {
			faults = append(faults, fmt.Errorf("driver %d is nil", i))
		}
	}
	return errors.Join(faults...)
}

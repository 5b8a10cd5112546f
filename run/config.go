package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/record"
)

// Config is what an [Engine] is made of. Home, Decide, Images and at least one driver are needed for a run; without a
// driver every run ends as [Error] with [ReasonMissing].
type Config struct {
	// Home is the state directory: silk.db and runs/ are made in it. It must exist.
	Home string

	// Decide turns a request into a plan: policy.Decide with the owner's profiles and grants. A [*policy.Denial] is
	// a refusal, any other error a request that cannot be read. It is called once for each run and must be pure.
	Decide func(policy.Request) (policy.Plan, error)

	// Drivers in the order in which "auto" prefers them: the first one is used.
	Drivers []driver.Driver

	Images Images

	// Snapshot packs a host directory or file into a read-only EROFS file that nobody else can open, for
	// Plan.Mounts. nil: a plan with mounts is refused.
	Snapshot func(ctx context.Context, path string) (*os.File, error)

	// Sweep removes what an earlier crash left. New starts it in the background; nil means nothing to sweep.
	Sweep func(ctx context.Context) error

	// Logger is for operators. nil discards.
	Logger *slog.Logger
}

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
}

// Preparer is implemented by drivers that can boot a part of a sandbox before anything about the run is known. The
// engine calls Prepare first of all, so that the boot overlaps with deciding, opening the store and finding the image.
type Preparer interface {
	// Prepare returns at once. What it starts has seen no code, no input and no image, and serves one Start at
	// most. release ends it if no Start took it; it may be called at any time, once.
	Prepare(ctx context.Context) (release func())
}

// Prober is implemented by drivers that know what they cannot enforce on this host.
type Prober interface {
	// Probe returns one sentence for each promise of a plan that the driver does not keep here, or keeps in another
	// way than its usual one. An error means that the driver is not usable at all, and says what is missing.
	Probe(ctx context.Context, spec driver.Spec) (notes []string, err error)
}

// Size is the size of a terminal in character cells.
type Size struct{ Columns, Rows uint16 }

// IO connects one run to its caller.
type IO struct {
	// Stdin is copied into the sandbox if the request says HasStdin or Terminal. A Read that blocks after the run
	// has ended is left behind unless Stdin is an *os.File.
	Stdin io.Reader

	// OnFrame receives output as it arrives, one call at a time, and slows the program down if it is slow. nil: kept only.
	OnFrame func(Frame)

	// Resize carries the terminal's size, the first one at once. Only with Request.Terminal.
	Resize <-chan Size

	// Artifacts is an existing directory that receives copies of the artifacts, or empty.
	Artifacts string

	// Trace receives the steps of the start as they happen, from any goroutine. nil: none.
	Trace func(step string, at time.Time)
}

// Preview is the answer to "what would happen": a plan and what this host makes of it.
type Preview struct {
	Plan   policy.Plan `json:"plan"`
	Driver string      `json:"driver"`
	Image  string      `json:"image"` // digest
	Notes  []string    `json:"notes"` // what the driver cannot enforce here, or enforces otherwise
}

func (c Config) validate() error {
	var faults []error
	if !filepath.IsAbs(c.Home) {
		faults = append(faults, fmt.Errorf("state directory %q is not an absolute path", c.Home))
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

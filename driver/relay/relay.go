// Package relay lets a process start a sandbox with the driver of another process. The one that decided about a run keeps its streams, its
// workspace and its record; the other one, which somebody else has put where the sandbox is to be - into a container of an engine - has the
// driver, and learns from the first what to start.
//
//	sandbox, err := relay.Start(ctx, sock, build, spec)   // as driver.Driver.Start
//
//	errand, err := relay.Accept(sock, build)              // in the other process
//	exit, err := errand.Run(ctx, driver, relay.Hooks{})
//
// Between the two is a SOCK_SEQPACKET socket with messages as package packet sends them. Image, channels, link and mounts go as
// descriptors, the workspace as two tar streams in pipes, and nothing of what the program prints goes through either process's
// hands twice. Both must be of one build: a spec means what its driver makes of it.
//
// The socket is the sandbox's life: when one process ends, the other one's end of it does, and the sandbox with it. Who may be at the
// other end is the caller's to know, since a request is obeyed without a question.
package relay

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/watch"
)

// BuildError is returned by Start when the other process is of another build.
type BuildError struct{ Theirs, Ours string }

func (e *BuildError) Error() string {
	return fmt.Sprintf("the process with the driver is silk %s, and this is %s", e.Theirs, e.Ours)
}

// ErrLost is returned by Wait when the other process ended without a word about the sandbox.
var ErrLost = errors.New("the process with the driver has ended without a word")

// errGone is what ends a sandbox whose process at the other end has.
var errGone = errors.New("the process that asked for the sandbox is gone")

// request is a spec on its way. What stands in the spec as a file or a function is named again here, which leaves the spec's own out of
// the JSON (encoding/json: the least nested field of a name is taken).
type request struct {
	driver.Spec
	Image, Stdin, Stdout, Stderr, Terminal *struct{} `json:",omitempty"`

	Beside []bool // which of slots are descriptors beside the message
	Link   link
	Mounts []string // targets

	Fill, Drain, Events, Trace bool // Fill and Drain are two more descriptors
}

type link struct {
	Addrs []netip.Addr
	MTU   int
}

// slots are the places of a spec where a file may be, in the order of the descriptors.
func slots(spec *driver.Spec) []**os.File {
	s := []**os.File{&spec.Image, &spec.Stdin, &spec.Stdout, &spec.Stderr, &spec.Terminal, &spec.Link.File}
	for i := range spec.Mounts {
		s = append(s, &spec.Mounts[i].Image)
	}
	return s
}

// requestOf is spec as a message, and the files beside it.
func requestOf(spec driver.Spec) (r request, files []*os.File) {
	r = request{
		Spec: spec, Link: link{spec.Link.Addrs, spec.Link.MTU},
		Fill: spec.Fill != nil, Drain: spec.Drain != nil, Events: spec.Events != nil, Trace: spec.Trace != nil,
	}
	for _, m := range spec.Mounts {
		r.Mounts = append(r.Mounts, m.Target)
	}
	for _, slot := range slots(&spec) {
		r.Beside = append(r.Beside, *slot != nil)
		if *slot != nil {
			files = append(files, *slot)
		}
	}
	return r, files
}

// spec is what was asked for, without its functions, and the files that are left over.
func (r request) spec(files []*os.File) (driver.Spec, []*os.File, error) {
	spec := r.Spec
	spec.Link = driver.Link{Addrs: r.Link.Addrs, MTU: r.Link.MTU}
	spec.Mounts = nil
	for _, target := range r.Mounts {
		spec.Mounts = append(spec.Mounts, driver.Mount{Target: target})
	}
	places := slots(&spec)
	if len(r.Beside) != len(places) {
		return spec, files, fmt.Errorf("the request has %d files, not %d", len(r.Beside), len(places))
	}
	for i, slot := range places {
		if !r.Beside[i] {
			continue
		}
		if len(files) == 0 {
			return spec, nil, errors.New("the request lacks a descriptor")
		}
		*slot, files = files[0], files[1:]
	}
	return spec, files, nil
}

// order is what else the process that asked may say.
type order struct {
	Filled *filled          `json:",omitempty"` // the workspace's stream is at its end
	Kill   *driver.KillMode `json:",omitempty"`
	Signal int              `json:",omitempty"`
	Resize *[2]uint16       `json:",omitempty"`
}

type filled struct{ Error string }

// word is what the process with the driver says: one of its fields.
type word struct {
	Build   *string      `json:",omitempty"` // the first word
	Step    *step        `json:",omitempty"`
	Event   *watch.Event `json:",omitempty"`
	Started *abilities   `json:",omitempty"`
	Exit    *ending      `json:",omitempty"` // the last one
}

type step struct {
	Name string
	At   time.Time
}

// abilities are the optional interfaces that the sandbox has.
type abilities struct{ Signals, Resizes bool }

// ending is how a sandbox ended, or why there is none.
type ending struct {
	driver.Exit
	DrainErr string         `json:",omitempty"`
	Failed   string         `json:",omitempty"`
	Unheld   *driver.Unheld `json:",omitempty"`
}

func endingOf(exit driver.Exit, err error) *ending {
	e := &ending{Exit: exit}
	if exit.DrainErr != nil {
		e.DrainErr = exit.DrainErr.Error()
	}
	if err != nil {
		e.Failed = err.Error()
		errors.As(err, &e.Unheld)
	}
	return e
}

// result is what endingOf was made of, as far as it goes into a message.
func (e *ending) result() (exit driver.Exit, err error) {
	exit = e.Exit
	if e.DrainErr != "" {
		exit.DrainErr = errors.New(e.DrainErr)
	}
	switch {
	case e.Unheld != nil:
		err = e.Unheld
	case e.Failed != "":
		err = errors.New(e.Failed)
	}
	return exit, err
}

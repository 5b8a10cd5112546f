package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"github.com/silk-sandbox/silk/api"
)

// ErrNotFound is returned by an [Engine] for a run or artifact that is not there, or that its identity may not see.
var ErrNotFound = errors.New("there is no such thing")

// RequestError says that a request cannot be read. Nothing was recorded.
type RequestError struct{ Text string }

func (e *RequestError) Error() string { return e.Text }

// Engine runs code and knows what ran, for one identity. Its errors are for models: they name no path of the host. Safe for
// concurrent use.
type Engine interface {
	Runner
	Archive

	// Plan says what Run would do. A refusal is an answer. Errors: [*RequestError].
	Plan(ctx context.Context, req api.RunRequest) (api.Preview, error)

	Profiles(ctx context.Context) ([]api.Profile, error)
}

// Runner takes requests through their life.
type Runner interface {
	// Run returns when the run has ended. Before, it calls on in order, one call at a time: hello first, as soon as the run has an
	// id, with its state if it is accepted; then what frames a stream has, started among them, without exit. The bytes of an output frame are data, which is valid during the call, and
	// not in the frame. The end of ctx ends the run, and Run returns when it is over. A request that policy refuses has the
	// outcome denied. Errors: [*RequestError] for one that cannot be read, and what keeps the engine from saying how the run ended.
	Run(ctx context.Context, req api.RunRequest, on func(f api.Frame, data []byte)) (api.Outcome, error)
}

// Archive is what is kept of runs. Its errors are [ErrNotFound] for what is not there.
type Archive interface {
	Look(ctx context.Context, run string) (api.Run, error)
	Record(ctx context.Context, run string) (json.RawMessage, error) // silk.run-record/v1

	// Output opens what is kept of a channel of a run that has ended. The caller closes it.
	Output(ctx context.Context, run, channel string) (io.ReadCloser, error)

	// Artifact opens an artifact of a run that has ended. The caller closes it.
	Artifact(ctx context.Context, run, name string) (io.ReadCloser, error)

	// Runs are the newest runs, the newest first.
	Runs(ctx context.Context, most int) ([]api.Run, error)
}

// Handoffs is implemented by an [Engine] that has what was handed on of runs which did not end well: then they are resources.
type Handoffs interface {
	// Handoffs lists the newest ones, the newest first, without content.
	Handoffs(ctx context.Context, most int) ([]api.Handoff, error)

	// Handoff is one of them. ErrNotFound: there is no such one.
	Handoff(ctx context.Context, id string) (api.Handoff, error)
}

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/policy"
)

// Remote is the engine of a running silk serve. What its client's token may see and do, the server decides.
type Remote struct{ client *client.Client }

// NewRemote makes one. The caller closes c.
func NewRemote(c *client.Client) *Remote { return &Remote{c} }

// Limits on what is done for a run whose caller is gone.
const (
	submitTimeout = time.Minute
	cancelTimeout = 20 * time.Second
)

// Run implements [Runner].
func (r *Remote) Run(ctx context.Context, req api.RunRequest, on func(api.Frame, []byte)) (api.Outcome, error) {
	req.Client = string(policy.ClientMCP) // whatever it says
	lasting, drop := context.WithCancel(context.WithoutCancel(ctx))
	defer drop()
	// If the caller goes away now, the server may have the run already: it must be known, so that it can be ended.
	submit, cancel := context.WithTimeout(lasting, submitTimeout)
	accepted, err := r.client.Submit(submit, req, "")
	cancel()
	if err != nil {
		return refused(err)
	}
	defer context.AfterFunc(ctx, func() {
		cancel, stop := context.WithTimeout(lasting, cancelTimeout)
		defer stop()
		_ = r.client.Cancel(cancel, accepted.ID) // it has ended already, or the server does not answer, as the stream will say
		<-cancel.Done()
		drop()
	})()
	if accepted.State == api.StatePending { // a server that does not know what an agent may ask for
		cancel, stop := context.WithTimeout(lasting, cancelTimeout)
		defer stop()
		return api.Outcome{}, errors.Join(errors.New("the server would ask its owner, which an agent must not"), r.client.Cancel(cancel, accepted.ID))
	}
	on(api.Frame{Type: api.FrameHello, Run: accepted.ID, Profile: accepted.Profile, State: string(accepted.State)}, nil)
	for f, err := range r.client.Watch(accepted.ID, client.Cursor{}).Frames(lasting) {
		switch {
		case err != nil:
			return api.Outcome{}, fmt.Errorf("watch run %s: %w", accepted.ID, err)
		case f.Type == api.FrameExit && f.Outcome != nil:
			return *f.Outcome, nil
		case f.Type == api.FrameOutput:
			data, err := f.Bytes()
			if err != nil {
				return api.Outcome{}, fmt.Errorf("decode output of run %s: %w", accepted.ID, err)
			}
			f.Data, f.B64 = "", ""
			on(f, data)
		case f.Type != api.FrameHello:
			on(f, nil)
		}
	}
	return api.Outcome{}, client.ErrUnknown
}

// refused is the outcome of a request that the server has refused, or why there is none.
func refused(err error) (api.Outcome, error) {
	var problem *api.Problem
	var big *client.TooLargeError
	switch {
	case errors.As(err, &big):
		return api.Outcome{}, &RequestError{big.Error()}
	case !errors.As(err, &problem):
		return api.Outcome{}, err
	case problem.Type == "urn:silk:denied":
		return api.Outcome{Kind: "denied", Rule: problem.Rule, Message: problem.Error(), Run: problem.Run, Artifacts: []api.Artifact{}, Flags: map[string]int64{}}, nil
	case problem.Status == http.StatusUnprocessableEntity:
		return api.Outcome{}, &RequestError{problem.Error()}
	}
	return api.Outcome{}, err
}

// Plan implements [Engine].
func (r *Remote) Plan(ctx context.Context, req api.RunRequest) (api.Preview, error) {
	req.Client = string(policy.ClientMCP)
	p, err := r.client.Plan(ctx, req)
	if err != nil {
		_, err = refused(err)
	}
	return p, err
}

// Profiles implements [Engine].
func (r *Remote) Profiles(ctx context.Context) ([]api.Profile, error) { return r.client.Profiles(ctx) }

// Look implements [Archive].
func (r *Remote) Look(ctx context.Context, run string) (api.Run, error) {
	out, err := r.client.Run(ctx, run)
	return out, known(err)
}

// Record implements [Archive].
func (r *Remote) Record(ctx context.Context, run string) (json.RawMessage, error) {
	text, err := r.client.Record(ctx, run)
	return text, known(err)
}

// Output implements [Archive].
func (r *Remote) Output(ctx context.Context, run, channel string) (io.ReadCloser, error) {
	out, err := r.client.Output(ctx, run, channel)
	return out, known(err)
}

// Artifact implements [Archive].
func (r *Remote) Artifact(ctx context.Context, run, name string) (io.ReadCloser, error) {
	out, err := r.client.Artifact(ctx, run, name, 0)
	return out, known(err)
}

// Runs implements [Archive].
func (r *Remote) Runs(ctx context.Context, most int) ([]api.Run, error) {
	out := []api.Run{}
	for run, err := range r.client.Runs(ctx, client.RunFilter{Page: most}) {
		if err != nil {
			return nil, err
		}
		if out = append(out, run); len(out) == most {
			break
		}
	}
	return out, nil
}

// Handoffs implements [Handoffs].
func (r *Remote) Handoffs(ctx context.Context, most int) ([]api.Handoff, error) {
	out := []api.Handoff{}
	for h, err := range r.client.Handoffs(ctx, client.HandoffFilter{Page: most}) {
		if err != nil {
			return nil, err
		}
		if out = append(out, h); len(out) == most {
			break
		}
	}
	return out, nil
}

// Handoff implements [Handoffs].
func (r *Remote) Handoff(ctx context.Context, id string) (api.Handoff, error) {
	h, err := r.client.Handoff(ctx, id)
	return h, known(err)
}

// known turns the problem that there is no such thing into [ErrNotFound].
func known(err error) error {
	var problem *api.Problem
	if errors.As(err, &problem) && problem.Status == http.StatusNotFound {
		return fmt.Errorf("%w: %s", ErrNotFound, problem.Error())
	}
	return err
}

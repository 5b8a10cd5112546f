package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/run"
)

// Planner says what a request would come to: a [*run.Engine].
type Planner interface {
	Plan(ctx context.Context, req policy.Request) (run.Preview, error)
}

// Plan says what [Server.Submit] would do with a request. A refusal is an answer, not an error. Nothing is accepted or recorded.
// Errors: auth.ErrForbidden, [*InvalidError], and what the host does to it.
func (s *Server) Plan(ctx context.Context, id auth.Identity, in api.RunRequest) (api.Preview, error) {
	if !id.Can(auth.ActRun) {
		return api.Preview{}, auth.ErrForbidden
	}
	return PreviewOf(ctx, s.cfg.Engine, in)
}

// PreviewOf is what p says of a request, as clients see it.
func PreviewOf(ctx context.Context, p Planner, in api.RunRequest) (api.Preview, error) {
	out := api.Preview{Notes: []string{}, Enforced: []api.Enforcement{}}
	req, err := RequestOf(in)
	if err != nil {
		return out, err
	}
	preview, err := p.Plan(ctx, req)
	var denial *policy.Denial
	switch {
	case errors.As(err, &denial):
		out.Denial = DenialOf(denial)
	case errors.Is(err, fs.ErrNotExist) && preview.Plan.Profile != "": // the image, which may come yet
		out.Notes = append(out.Notes, err.Error())
	case err != nil:
		return out, invalid(err)
	}
	if preview.Plan.Profile == "" {
		return out, nil
	}
	if out.Plan, err = json.Marshal(preview.Plan); err != nil {
		return out, fmt.Errorf("encode plan: %w", err)
	}
	out.Hash, out.Driver, out.Image = preview.Plan.Hash(), preview.Driver, preview.Image
	out.Notes = append(out.Notes, preview.Notes...)
	for _, e := range policy.Enforced(preview.Plan) {
		out.Enforced = append(out.Enforced, api.Enforcement{What: e.What, Rule: e.Rule})
	}
	return out, nil
}

// DenialOf is a refusal as clients see it.
func DenialOf(d *policy.Denial) *api.Denial {
	out := &api.Denial{Rule: d.Rule, Detail: d.Detail, Fix: d.Fix}
	for _, more := range d.Also {
		out.Detail += "; also " + more.Error()
	}
	return out
}

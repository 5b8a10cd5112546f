package httpapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/serve"
)

// RunPath is the run in a path.
type RunPath struct {
	Run string `path:"run" pattern:"^[0-9A-HJKMNP-TV-Z]{26}$" doc:"Id of the run"`
}

type newRun struct {
	Key    string `header:"Idempotency-Key" maxLength:"255" doc:"Repeat a request with the same key, and the same run is returned"`
	Follow string `query:"follow" pattern:"^[0-9A-Za-z_-]{1,64}$" doc:"The run's stream will be asked for with the same word: what is printed before is not lost either"`

	// W3C Trace Context, which is ignored where it makes no sense: no limits.
	Traceparent string `header:"traceparent" doc:"W3C Trace Context: where the server sends traces, the run's span is below this one"`
	Tracestate  string `header:"tracestate" doc:"W3C Trace Context"`

	Body api.RunRequest
}

type acceptedRun struct {
	Status   int
	Location string `header:"Location"`
	Body     api.Run
}

type oneRun struct {
	Body api.Run
}

type runList struct {
	State   string `query:"state" enum:"pending,queued,running,ended"`
	Outcome string `query:"outcome" enum:"ok,failed,timeout,oom,violated,denied,canceled,error"`
	Profile string `query:"profile" maxLength:"64"`
	Session string `query:"session" maxLength:"26"`
	Paging
}

// Paging is the parameters of every list.
type Paging struct {
	Cursor string `query:"cursor" maxLength:"100" doc:"Next of the page before"`
	Limit  int    `query:"limit" minimum:"1" maximum:"500" default:"50"`
}

type planned struct{ Body api.RunRequest }

type preview struct{ Body api.Preview }

type runPage struct{ Body api.Page[api.Run] }

type newInput struct {
	RunPath
	Body api.Input
}

type inputTaken struct{ Body api.InputTaken }

type newSize struct {
	RunPath
	Body api.Size
}

type nothing struct{}

type newSession struct{ Body api.NewSession }

type session struct {
	Status int
	Body   api.Session
}

type sessionPath struct {
	Session string `path:"session" pattern:"^[0-9A-HJKMNP-TV-Z]{26}$"`
}

type rawRecord struct {
	ContentType string `header:"Content-Type"`
	Body        json.RawMessage
}

func (h *handler) runs() {
	s := h.cfg.Server
	operation(h, huma.Operation{
		OperationID: "create-run", Method: http.MethodPost, Path: "/v1/runs", Summary: "Ask for a run", Tags: []string{"runs"},
		Description:   "Accepted means stored: the run ends with a record whatever happens to the server. One that needs the owner's approval is `pending`.",
		DefaultStatus: http.StatusCreated, MaxBodyBytes: maxBodyBytes,
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusRequestEntityTooLarge, http.StatusServiceUnavailable},
	}, func(ctx context.Context, id auth.Identity, in *newRun) (*acceptedRun, error) {
		r, existed, err := s.Submit(serve.WithTraceparent(ctx, in.Traceparent, in.Tracestate), id, in.Body, in.Key)
		if err == nil {
			s.Expect(r.ID, in.Follow)
		}
		out := &acceptedRun{Status: http.StatusCreated, Location: "/v1/runs/" + r.ID, Body: r}
		if existed {
			out.Status = http.StatusOK
		}
		return out, err
	})
	answers := h.api.OpenAPI().Paths["/v1/runs"].Post.Responses
	answers["200"] = &huma.Response{Description: "The run that this request was answered with before", Content: answers["201"].Content, Headers: answers["201"].Headers}
	operation(h, huma.Operation{
		OperationID: "list-runs", Method: http.MethodGet, Path: "/v1/runs", Summary: "List runs, the newest first", Tags: []string{"runs"},
	}, func(ctx context.Context, id auth.Identity, in *runList) (*runPage, error) {
		p, err := s.Runs(ctx, id, serve.Filter{
			State: api.State(in.State), Outcome: in.Outcome, Profile: in.Profile, Session: in.Session, Cursor: in.Cursor, Limit: in.Limit,
		})
		return &runPage{p}, err
	})
	operation(h, huma.Operation{
		OperationID: "plan-run", Method: http.MethodPost, Path: "/v1/plan", Summary: "Say what would happen to a request", Tags: []string{"runs"},
		Description: "Nothing is run, stored or recorded. A refusal is an answer.", MaxBodyBytes: maxBodyBytes,
	}, func(ctx context.Context, id auth.Identity, in *planned) (*preview, error) {
		p, err := s.Plan(ctx, id, in.Body)
		return &preview{p}, err
	})
	operation(h, huma.Operation{
		OperationID: "get-run", Method: http.MethodGet, Path: "/v1/runs/{run}", Summary: "Look at a run", Tags: []string{"runs"}, Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, id auth.Identity, in *RunPath) (*oneRun, error) {
		r, err := s.Run(ctx, id, in.Run)
		return &oneRun{r}, err
	})
	operation(h, huma.Operation{
		OperationID: "cancel-run", Method: http.MethodPost, Path: "/v1/runs/{run}/cancel", Summary: "End a run", Tags: []string{"runs"},
		Description:   "One that waits never starts. One that runs is ended; its outcome is `canceled` unless it ended by itself before.",
		DefaultStatus: http.StatusAccepted, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *RunPath) (*nothing, error) {
		return nil, s.Cancel(ctx, id, in.Run)
	})
	operation(h, huma.Operation{
		OperationID: "send-input", Method: http.MethodPost, Path: "/v1/runs/{run}/stdin", Summary: "Send a piece of the program's input", Tags: []string{"runs"},
		Description:  "A piece is taken or refused as a whole. The answer, of a 409 too, says where the next one begins. One with `offset` can be sent again when no answer came.",
		MaxBodyBytes: 2 << 20, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *newInput) (*inputTaken, error) {
		next, err := s.Input(ctx, id, in.Run, in.Body)
		return &inputTaken{api.InputTaken{Offset: next}}, err
	})
	operation(h, huma.Operation{
		OperationID: "resize-terminal", Method: http.MethodPost, Path: "/v1/runs/{run}/size", Summary: "Give the program's terminal another size", Tags: []string{"runs"},
		DefaultStatus: http.StatusNoContent, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *newSize) (*nothing, error) {
		return nil, s.Resize(ctx, id, in.Run, in.Body)
	})
	operation(h, huma.Operation{
		OperationID: "get-record", Method: http.MethodGet, Path: "/v1/runs/{run}/record", Summary: "Get the record of a run", Tags: []string{"runs"},
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *RunPath) (*rawRecord, error) {
		entry, err := s.Record(ctx, id, in.Run)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(serve.Public(entry.Record))
		return &rawRecord{"application/json", text}, err
	})
	operation(h, huma.Operation{
		OperationID: "get-envelope", Method: http.MethodGet, Path: "/v1/runs/{run}/envelope", Summary: "Get the signed record of a run", Tags: []string{"runs"},
		Description: "An in-toto statement about the record in a DSSE envelope, for whoever has the server's public key. The schema of the record is at /schemas/record.json.",
		Errors:      []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *RunPath) (*rawRecord, error) {
		text, err := s.Envelope(ctx, id, in.Run)
		return &rawRecord{"application/json", text}, err
	})
	h.output()
	operation(h, huma.Operation{
		OperationID: "create-session", Method: http.MethodPost, Path: "/v1/sessions", Summary: "Make a session, whose stream carries all its runs", Tags: []string{"sessions"},
		DefaultStatus: http.StatusCreated,
	}, func(ctx context.Context, id auth.Identity, in *newSession) (*session, error) {
		out, err := s.NewSession(ctx, id, in.Body)
		return &session{http.StatusCreated, out}, err
	})
	operation(h, huma.Operation{
		OperationID: "get-session", Method: http.MethodGet, Path: "/v1/sessions/{session}", Summary: "Look at a session", Tags: []string{"sessions"},
		Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, id auth.Identity, in *sessionPath) (*session, error) {
		out, err := s.Session(ctx, id, in.Session)
		return &session{http.StatusOK, out}, err
	})
}

type outputPath struct {
	RunPath
	Channel string `path:"channel" enum:"stdout,stderr"`
}

type artifactPath struct {
	RunPath
	Path string `query:"path" required:"true" maxLength:"4096" doc:"Path of the artifact, as the outcome lists it"`
}

// output are the operations whose answers are bytes.
func (h *handler) output() {
	bytes := map[string]*huma.Response{"200": {Description: "The bytes", Content: map[string]*huma.MediaType{"application/octet-stream": {Schema: &huma.Schema{Type: "string", Format: "binary"}}}}}
	anything := map[string]*huma.MediaType{"*/*": bytes["200"].Content["application/octet-stream"]} // its own type, if that is a harmless one
	operation(h, huma.Operation{
		OperationID: "get-output", Method: http.MethodGet, Path: "/v1/runs/{run}/output/{channel}", Summary: "Get the kept output of a run that has ended", Tags: []string{"runs"},
		Description: "The first bytes, up to the run's output limit; the outcome says whether there were more.", Responses: bytes,
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *outputPath) (*huma.StreamResponse, error) {
		out, err := h.cfg.Server.Output(ctx, id, in.Run, in.Channel)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer out.Close()
			c.SetHeader("Content-Type", "application/octet-stream")
			_, w := humago.Unwrap(c)
			_, _ = io.Copy(patient{w}, out) // the client has gone, or the disk fails: the length is not announced
		}}, nil
	})
	operation(h, huma.Operation{
		OperationID: "get-bundle", Method: http.MethodGet, Path: "/v1/runs/{run}/bundle", Summary: "Get a run that has ended as one file", Tags: []string{"runs"},
		Description: "What `silk record export` writes, `silk record verify` checks and `silk record replay` runs: the signed record, the request, what went in and what came out.", Responses: bytes,
		Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *RunPath) (*huma.StreamResponse, error) {
		b, err := h.cfg.Server.Bundle(ctx, id, in.Run)
		if err != nil {
			return nil, err
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			c.SetHeader("Content-Type", "application/octet-stream")
			_, w := humago.Unwrap(c)
			_ = b.Write(patient{w}) // the client has gone: the archive has no end then
		}}, nil
	})
	operation(h, huma.Operation{
		OperationID: "get-artifact", Method: http.MethodGet, Path: "/v1/runs/{run}/artifact", Summary: "Get an artifact of a run", Tags: []string{"runs"},
		Description: "Ranges are served (RFC 9110 section 14). The answer is never shown as a page: it is what an untrusted program wrote.",
		Responses: map[string]*huma.Response{
			"200": {Description: "The bytes", Content: anything}, "206": {Description: "The bytes of the range", Content: anything},
			"304": {Description: "It is as the client has it"},
		},
		Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusRequestedRangeNotSatisfiable},
	}, func(ctx context.Context, id auth.Identity, in *artifactPath) (*huma.StreamResponse, error) {
		f, a, err := h.cfg.Server.Artifact(ctx, id, in.Run, in.Path)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer f.Close()
			r, w := humago.Unwrap(c)
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Disposition", "attachment")
			if inert(a.MIME) {
				w.Header().Set("Content-Type", a.MIME)
			}
			w.Header().Set("ETag", `"`+a.SHA256+`"`)
			http.ServeContent(refusing{patient{w}, "range", "the artifact has no such part, or is not the one that is meant"}, r, "", info.ModTime(), f)
		}}, nil
	})
}

// inert are types that no browser runs anything of.
func inert(mime string) bool {
	kind, _, _ := strings.Cut(mime, ";")
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp", "text/plain", "text/csv", "application/json":
		return true
	}
	return false
}

package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/serve"
)

const (
	beat        = 15 * time.Second // of silence before a ping: well under the 60 s after which proxies give up
	sendTimeout = 20 * time.Second // for one frame to a client that reads slowly; then the connection is closed
	maxCommand  = 2 << 20          // bytes of one command of a client

	// followTimeout is sendTimeout for a follower, for whom the broker has a limit of its own while the program waits.
	followTimeout = 2 * time.Minute
)

// followKey is what a client may choose to say that it is the one that follows.
const followKey = "^[0-9A-Za-z_-]{1,64}$"

var isFollowKey = regexp.MustCompile(followKey).MatchString

// frames is where a stream comes from: broker.Viewer, serve.SessionStream, or serve.Replayed.
type frames interface {
	Next(ctx context.Context) ([]byte, error)
}

// streams registers the two streams outside of the library, which knows no WebSockets, and describes them to it.
func (h *handler) streams(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/runs/{run}/stream", h.stream(func(r *http.Request, id auth.Identity) (frames, error) {
		c, err := cursorOf(r)
		if err != nil {
			return nil, err
		}
		run := r.PathValue("run")
		v, err := h.view(r, id, run, c)
		if errors.Is(err, broker.ErrUnknownRun) {
			return h.replay(r.Context(), id, run, c)
		}
		return v, err
	}))
	mux.HandleFunc("GET /v1/sessions/{session}/stream", h.stream(func(r *http.Request, id auth.Identity) (frames, error) {
		resume, err := resumeOf(r)
		if err != nil {
			return nil, err
		}
		v, err := h.cfg.Server.SessionStream(r.Context(), id, r.PathValue("session"), resume)
		if err == nil {
			context.AfterFunc(r.Context(), v.Close)
		}
		return v, err
	}))
	h.describeStream("stream-run", "/v1/runs/{run}/stream", "run", "Watch a run", []int{409, 416},
		&huma.Param{Name: "stdout", In: "query", Description: "Bytes of stdout that the viewer has; left out with stderr: the last 4 KiB of each come first", Schema: &huma.Schema{Type: "integer", Minimum: new(float64)}},
		&huma.Param{Name: "stderr", In: "query", Description: "The same of stderr", Schema: &huma.Schema{Type: "integer", Minimum: new(float64)}},
		&huma.Param{Name: "follow", In: "query", Description: "Only for who controls the run, over a WebSocket: the program waits for this viewer, which sends acks, in place of losing output. A word of the client's choice, the same when it comes again. hello says whether the place was free", Schema: &huma.Schema{Type: "string", Pattern: followKey}})
	h.describeStream("stream-session", "/v1/sessions/{session}/stream", "session", "Watch all runs of a session, those to come included", nil,
		&huma.Param{Name: "after", In: "query", Description: "The newest run that the viewer knows, or the id of the session. Those accepted later come from their begin, whether they have ended or not", Schema: &huma.Schema{Type: "string", Pattern: runID}},
		&huma.Param{Name: "at", In: "query", Description: "With after, go on: RUN:STDOUT:STDERR of each run whose exit frame the viewer does not have, with the bytes that it has, separated by commas; it may be empty. Left out, what lives comes with its tail. A run that ended up to 5 s before may come again", Schema: &huma.Schema{Type: "string", Pattern: resumePattern}})
}

// view attaches a viewer, or the follower.
func (h *handler) view(r *http.Request, id auth.Identity, run string, c broker.Cursor) (*broker.Viewer, error) {
	if !r.URL.Query().Has("follow") {
		return h.cfg.Server.Stream(r.Context(), id, run, c)
	}
	key := r.URL.Query().Get("follow")
	switch {
	case !isFollowKey(key):
		return nil, badQuery("follow", "it is not 1 to 64 letters, digits, - and _")
	case !isSocket(r):
		return nil, badQuery("follow", "a follower says what has arrived, for which it needs a WebSocket")
	}
	return h.cfg.Server.Follow(r.Context(), id, run, c, key)
}

// Forms of what says where a viewer of a session goes on.
const (
	runID         = "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"
	resumePattern = "^([0-7][0-9A-HJKMNP-TV-Z]{25}:[0-9]{1,18}:[0-9]{1,18}(,|$))*$"
)

var (
	isRunID  = regexp.MustCompile(runID).MatchString
	isResume = regexp.MustCompile(resumePattern).MatchString
)

// resumeOf reads where a viewer of a session goes on; nil: it begins.
func resumeOf(r *http.Request) (*serve.Resume, error) {
	q := r.URL.Query()
	resume := &serve.Resume{After: q.Get("after")}
	if q.Has("at") {
		resume.At = map[string]broker.Cursor{}
	}
	switch {
	case !q.Has("after") && !q.Has("at"):
		return nil, nil
	case !isRunID(resume.After):
		return nil, badQuery("after", "it is not the id of a run, which is needed to go on")
	case !isResume(q.Get("at")):
		return nil, badQuery("at", "it is not RUN:STDOUT:STDERR, separated by commas")
	}
	for part := range strings.SplitSeq(q.Get("at"), ",") {
		var c broker.Cursor
		run, offsets, ok := strings.Cut(part, ":")
		if !ok {
			continue // nothing, or nothing after the last comma
		}
		stdout, stderr, _ := strings.Cut(offsets, ":")
		c.Stdout, _ = strconv.ParseInt(stdout, 10, 64) // are numbers: see resumePattern
		c.Stderr, _ = strconv.ParseInt(stderr, 10, 64)
		resume.At[run] = c
	}
	return resume, nil
}

// badQuery is the answer to a parameter that cannot be read.
func badQuery(name, detail string) error {
	p := problem(http.StatusBadRequest, "invalid", "the request cannot be read", "")
	p.Errors = []api.FieldError{{Field: "query." + name, Detail: detail}}
	return p
}

// isSocket says whether a request asks for a WebSocket.
func isSocket(r *http.Request) bool { return strings.EqualFold(r.Header.Get("Upgrade"), "websocket") }

func (h *handler) describeStream(id, path, what, summary string, statuses []int, params ...*huma.Param) {
	ref := h.api.OpenAPI().Components.Schemas
	frame := ref.Schema(typeOf[api.Frame](), true, "Frame")
	ref.Schema(typeOf[api.Command](), true, "Command")
	fault := ref.Schema(typeOf[api.Problem](), true, "Problem")
	params = append([]*huma.Param{
		{Name: what, In: "path", Required: true, Schema: &huma.Schema{Type: "string", Pattern: "^[0-9A-HJKMNP-TV-Z]{26}$"}},
		{Name: "ticket", In: "query", Description: "In place of a token, for browsers", Schema: &huma.Schema{Type: "string"}},
	}, params...)
	problems := map[string]*huma.Response{}
	for _, status := range slices.Concat(everywhere, []int{400, 404, 426, 500, 503}, statuses) {
		problems[strconv.Itoa(status)] = &huma.Response{Description: http.StatusText(status), Content: map[string]*huma.MediaType{"application/problem+json": {Schema: fault}}}
	}
	problems["101"] = &huma.Response{Description: "WebSocket of subprotocol " + api.Subprotocol + ": the server sends one Frame a message, the client Commands"}
	problems["200"] = &huma.Response{Description: "Server-sent events, for clients without WebSocket: the data of each is one Frame, its id a cursor", Content: map[string]*huma.MediaType{"text/event-stream": {Schema: frame}}}
	h.api.OpenAPI().AddOperation(&huma.Operation{
		OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: []string{"streams"}, Parameters: params, Responses: problems,
		Description: "The first frame is hello, the last one of a run exit. A stream that ends without it says nothing about how the run ended.",
		Security:    []map[string][]string{{"token": {}}},
	})
}

// stream answers one request for a stream.
func (h *handler) stream(open func(*http.Request, auth.Identity) (frames, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		r = r.WithContext(ctx)
		id, _ := auth.FromContext(ctx)
		if isSocket(r) && !speaks(r) {
			h.refuse(w, foreignProtocol())
			return
		}
		f, err := open(r, id)
		if err != nil {
			h.refuse(w, h.problemOf(ctx, err))
			return
		}
		if isSocket(r) {
			h.socket(w, r, id, f)
		} else {
			h.events(w, r, id, f)
		}
	}
}

// protocolHeader is where a client says which subprotocols it speaks: RFC 6455 section 11.3.4.
const protocolHeader = "Sec-WebSocket-Protocol"

// speaks says whether a client may be spoken to in silk.v1: it offers that, or nothing, which leaves it to the server. One that
// offers others alone would take what comes for something else.
func speaks(r *http.Request) bool {
	offers := false
	for _, line := range r.Header.Values(protocolHeader) {
		for offer := range strings.SplitSeq(line, ",") {
			offer = strings.TrimSpace(offer)
			if strings.EqualFold(offer, api.Subprotocol) { // as the library compares
				return true
			}
			offers = offers || offer != ""
		}
	}
	return !offers
}

func foreignProtocol() error {
	p := problem(http.StatusBadRequest, "subprotocol", "the stream speaks another subprotocol", "")
	p.Errors = []api.FieldError{{Field: "header." + protocolHeader, Detail: "offer " + api.Subprotocol + ", or leave the header out"}}
	return p
}

// cursorOf reads where a viewer begins: from the query, or for an event source that reconnects from the id of the last event.
func cursorOf(r *http.Request) (broker.Cursor, error) {
	q := r.URL.Query()
	stdout, stderr, ok := strings.Cut(r.Header.Get("Last-Event-ID"), ",")
	if !ok {
		if !q.Has("stdout") && !q.Has("stderr") {
			return broker.Cursor{Tail: true}, nil
		}
		stdout, stderr = q.Get("stdout"), q.Get("stderr")
	}
	var c broker.Cursor
	for _, part := range []struct {
		name, text string
		to         *int64
	}{{"stdout", stdout, &c.Stdout}, {"stderr", stderr, &c.Stderr}} {
		if part.text == "" {
			continue
		}
		n, err := strconv.ParseInt(part.text, 10, 64)
		if err != nil || n < 0 {
			return c, badQuery(part.name, "it is not a number of bytes")
		}
		*part.to = n
	}
	return c, nil
}

// pump sends frames until they end, a ping in each silence, and looks every now and then whether the viewer still may watch.
func (h *handler) pump(ctx context.Context, id auth.Identity, f frames, send func([]byte) error) error {
	ping, err := json.Marshal(api.Frame{Type: api.FramePing})
	if err != nil {
		return err
	}
	looked := time.Now()
	for {
		wait, cancel := context.WithTimeout(ctx, beat)
		frame, err := f.Next(wait)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			frame, err = ping, nil
		}
		if err == nil && time.Since(looked) >= beat && id.Token != auth.LocalToken {
			looked = time.Now()
			err = h.cfg.Verifier.Still(ctx, id)
		}
		if err != nil {
			return err
		}
		if err := send(frame); err != nil {
			return err
		}
	}
}

package httpapi

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/approval"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/internal/logkey"
	"github.com/silk-sandbox/silk/note"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/serve"
	"github.com/silk-sandbox/silk/store"
)

// kinds are the problems that there are: the only place where an error becomes a status.
var kinds = []struct {
	is     error
	status int
	kind   string
	title  string
}{
	{auth.ErrUnauthorized, http.StatusUnauthorized, "unauthorized", "the credentials are no good"},
	{auth.ErrForbidden, http.StatusForbidden, "forbidden", "the role does not allow this"},
	{approval.ErrOwnRequest, http.StatusForbidden, "own-request", "who asks does not decide"},
	{serve.ErrNotFound, http.StatusNotFound, "not-found", "there is no such thing"},
	{approval.ErrNotFound, http.StatusNotFound, "not-found", "there is no such thing"},
	{auth.ErrNotFound, http.StatusNotFound, "not-found", "there is no such thing"},
	{handoff.ErrNotFound, http.StatusNotFound, "not-found", "there is no such thing"},
	{handoff.ErrAcked, http.StatusConflict, "acked", "it is acknowledged already"},
	{handoff.ErrNoSink, http.StatusConflict, "no-sink", "there is nowhere to deliver it"},
	{queue.ErrNotFound, http.StatusNotFound, "not-found", "there is no such thing"},
	{queue.ErrKeyReused, http.StatusConflict, "key-reused", "the idempotency key belongs to another request"},
	{approval.ErrHash, http.StatusConflict, "hash", "what waits is not what was looked at"},
	{approval.ErrDecided, http.StatusConflict, "decided", "it is decided already"},
	{approval.ErrNoGrant, http.StatusConflict, "no-grant", "there is no grant that covers anything"},
	{approval.ErrTooLarge, http.StatusRequestEntityTooLarge, "too-large", "it is too large for an owner to look at"},
	{approval.ErrExpired, http.StatusConflict, "expired", "the time for a decision is over"},
	{auth.ErrName, http.StatusConflict, "name", "the name is taken or no good"},
	{auth.ErrRevoked, http.StatusConflict, "revoked", "it is revoked already"},
	{serve.ErrInputOffset, http.StatusConflict, "input-offset", "the piece is not the next one of the input"},
	{serve.ErrInputFull, http.StatusConflict, "input-full", "the program has not read what came before"},
	{serve.ErrState, http.StatusConflict, "state", "the run is not in a state that allows this"},
	{note.ErrNotFound, http.StatusConflict, "block-not-found", "the block is not in the note"},
	{errOtherCode, http.StatusConflict, "other-code", "the run is not one of the block"},
	{broker.ErrCursor, http.StatusRequestedRangeNotSatisfiable, "cursor", "the run has not printed that much"},
	{auth.ErrTooManyTickets, http.StatusServiceUnavailable, "busy", "too many tickets wait to be used"},
	{queue.ErrClosed, http.StatusServiceUnavailable, "stopping", "the server stops"},
	{broker.ErrClosed, http.StatusServiceUnavailable, "stopping", "the server stops"},
	{context.DeadlineExceeded, http.StatusServiceUnavailable, "slow", "it took too long"},
}

// hints say what to do, where the error itself does not.
var hints = map[string]string{
	"unauthorized": "send the header Authorization: Bearer TOKEN; `silk token new NAME` makes a token",
	"stopping":     "the server stops; try again in a moment",
	"key-reused":   "choose another key for another request",
	"own-request": "the token that asked does not decide: decide with an owner's token; what was asked over the socket is decided over the port, or over " +
		"the socket where the configuration has serve: own_local",
}

// problemOf turns an error into what the client is told. What is not in the table is the server's fault: it is logged, and
// the client learns no more than that, since its text may name paths of the host.
func (h *handler) problemOf(ctx context.Context, err error) error {
	var (
		already answer
		noSkill *missingSkill
		invalid *serve.InvalidError
		denied  *serve.DeniedError
		full    *queue.FullError
		big     *queue.TooBigError
		piece   *serve.InputError
	)
	const again = 2 * time.Second
	switch {
	case err == nil:
		return nil
	case errors.As(err, &already):
		return already
	case errors.As(err, &noSkill):
		return noSkill
	case errors.As(err, &invalid):
		p := problem(http.StatusUnprocessableEntity, "invalid", "the request cannot be read", "")
		for _, f := range invalid.Faults {
			p.Errors = append(p.Errors, api.FieldError{Field: f.Field, Detail: f.Detail})
		}
		return p
	case errors.As(err, &denied):
		p := problem(http.StatusForbidden, "denied", "policy refuses this", denied.Denial.Error())
		p.Rule, p.Fix, p.Run = denied.Denial.Rule, denied.Denial.Fix, denied.Run
		return p
	case errors.As(err, &full):
		p := problem(http.StatusTooManyRequests, "full", "the queue is full", full.Error())
		return p.after(full.RetryAfter)
	case errors.As(err, &big):
		return problem(http.StatusUnprocessableEntity, "too-big", "this host never has that much", big.Error())
	case errors.Is(err, store.ErrBusy):
		return problem(http.StatusServiceUnavailable, "busy", "another process holds the state database", "").after(again)
	case errors.Is(err, store.ErrAway):
		return problem(http.StatusServiceUnavailable, "away", "the server of the state database does not answer", "").after(again)
	case errors.Is(err, store.ErrFull), errors.Is(err, syscall.ENOSPC):
		return problem(http.StatusInsufficientStorage, "disk-full", "the server's disk is full", "").after(again)
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return problem(499, "gone", "the client has gone", "") // nobody reads it; 499 is what proxies log for that
	}
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			detail := short(err.Error()) // it may repeat an id, which may be long
			if more, ok := hints[k.kind]; ok {
				detail = more
			}
			p := problem(k.status, k.kind, k.title, detail)
			if errors.As(err, &piece) {
				p.Offset = &piece.Offset
			}
			return p
		}
	}
	h.cfg.Logger.ErrorContext(ctx, "answer a request", logkey.Error, err)
	return problem(http.StatusInternalServerError, "host", "the server could not do it; its log says why", "")
}

// answer is a problem with headers.
type answer struct {
	*api.Problem
	headers http.Header
}

// GetHeaders implements huma.HeadersError.
func (a answer) GetHeaders() http.Header { return a.headers }

// Unwrap lets errors.As find the problem.
func (a answer) Unwrap() error { return a.Problem }

func problem(status int, kind, title, detail string) answer {
	a := answer{&api.Problem{Type: "urn:silk:" + kind, Title: title, Status: status, Detail: detail}, http.Header{}}
	if status == http.StatusUnauthorized {
		a.headers.Set("WWW-Authenticate", `Bearer realm="silk"`)
	}
	return a
}

// after tells when to try again: RFC 9110 section 10.2.3, in whole seconds.
func (a answer) after(d time.Duration) answer {
	a.RetryAfterMs = d.Milliseconds()
	a.headers.Set("Retry-After", strconv.Itoa(max(1, int(math.Ceil(d.Seconds())))))
	return a
}

// maxFaults bounds how many faults of one request are told.
const maxFaults = 20

// maxShown bounds what is repeated of a request in the answer about it.
const maxShown = 200

// misfit is what is said of a value that fits the schema and not our type, such as 1e-400 for a whole number.
var misfit = regexp.MustCompile(`^json: cannot unmarshal .* into Go struct field \w+\.(\S+) of type`)

// short is the begin of a text of which nobody knows how long it is.
func short(text string) string {
	if len(text) <= maxShown {
		return text
	}
	return strings.ToValidUTF8(text[:maxShown], "") + "..."
}

// humaError is what the library makes of requests that do not fit the schema. It would repeat whole values, of which code may
// be one.
func humaError(status int, message string, errs ...error) huma.StatusError {
	p := problem(status, "invalid", "the request cannot be read", message)
	if status == http.StatusUnsupportedMediaType {
		p.Detail = "send JSON, with the header Content-Type: application/json"
	}
	if status != http.StatusUnprocessableEntity {
		p.Type, p.Title = "urn:silk:http", strings.ToLower(cmp.Or(http.StatusText(status), "error"))
	}
	for _, err := range errs {
		if err == nil {
			continue
		}
		if len(p.Errors) == maxFaults {
			p.Errors = append(p.Errors, api.FieldError{Detail: "and more of the kind"})
			break
		}
		var f api.FieldError
		var d huma.ErrorDetailer
		if errors.As(err, &d) { // whose own text has the whole value, which may be long, and there may be many of them
			f = api.FieldError{Field: d.ErrorDetail().Location, Detail: d.ErrorDetail().Message}
		} else {
			f.Detail = err.Error()
		}
		if m := misfit.FindStringSubmatch(f.Detail); m != nil && f.Field == "body" {
			f = api.FieldError{Field: "body." + m[1], Detail: "it is no value of its kind: a number too large or too small for the field, say"}
		}
		f.Detail = short(f.Detail)
		p.Errors = append(p.Errors, f)
	}
	return p.Problem
}

// refusing is for libraries that refuse in plain text: it tells so in problem details.
type refusing struct {
	http.ResponseWriter

	kind, title string
}

// Unwrap implements what http.ResponseController asks for.
func (w refusing) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w refusing) WriteHeader(status int) {
	if status < http.StatusBadRequest {
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.Header().Del("Content-Length")
	refuse(w.ResponseWriter, problem(status, w.kind, w.title, ""))
}

// Write implements io.Writer. What comes after a refusal is the library's text, whose type is not JSON's.
func (w refusing) Write(b []byte) (int, error) {
	if w.Header().Get("Content-Type") == "application/problem+json" {
		return len(b), nil
	}
	return w.ResponseWriter.Write(b)
}

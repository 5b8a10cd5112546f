package httpapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/silk-sandbox/silk/api"
)

const (
	// bodyRoom is how much of long request bodies is worked on at once. What is made of one - text, values, a row - takes some
	// six times as much memory for a moment.
	bodyRoom = 2 * maxBodyBytes
	// shortBody is what does not count.
	shortBody = 256 << 10
	// bodyWait is how long a long body waits for room.
	bodyWait = 10 * time.Second
	// maxValues bounds the values of one body: each becomes some 100 bytes, twice, before anything else can be said about
	// it. A request with as many files, arguments and variables as there may be has less.
	maxValues = 200_000
)

// bodies bounds what request bodies cost.
type bodies struct{ room *semaphore.Weighted }

func newBodies() bodies { return bodies{semaphore.NewWeighted(bodyRoom)} }

// enter waits for room for the body of r. It is not ok if there was none in time; else leave gives it back.
func (b bodies) enter(ctx context.Context, r *http.Request) (leave func(), ok bool) {
	size := r.ContentLength
	if size < 0 || size > maxBodyBytes { // unknown, or refused when it has come that far
		size = maxBodyBytes
	}
	if size <= shortBody {
		return func() {}, true
	}
	ctx, cancel := context.WithTimeout(ctx, bodyWait)
	defer cancel()
	if b.room.Acquire(ctx, size) != nil {
		return nil, false
	}
	return func() { b.room.Release(size) }, true
}

// check reads the body of a request and looks at what can be said of it for a hundredth of what reading it as JSON costs: how many
// values it has, and whether its text is text. A body that is too long is left to the operation, which knows its own limit. An error
// is an answer.
func check(r *http.Request) error {
	if r.Body == nil || r.Method != http.MethodPost { // of others nobody reads one
		return nil
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
	r.Body = &readAgain{bytes.NewReader(text), err, r.Body}
	if values(text) > maxValues {
		return problem(http.StatusRequestEntityTooLarge, "too-many", "the request has too many values", "more than 200,000 values")
	}
	if kind := r.Header.Get("Content-Type"); kind != "" && !strings.Contains(kind, "json") {
		return nil // and refused for that
	}
	if field, bad := badText(text, "body"); bad {
		p := problem(http.StatusUnprocessableEntity, "invalid", "the request cannot be read", "")
		p.Errors = []api.FieldError{{Field: field, Detail: "it is not UTF-8, or has half of a surrogate pair; bytes that are no text go into the field for base64, where there is one"}}
		return p
	}
	return nil
}

// readAgain is a body that was read already, with what came of that at its end.
type readAgain struct {
	text *bytes.Reader
	err  error
	io.Closer
}

// Read implements io.Reader.
func (b *readAgain) Read(p []byte) (int, error) {
	n, err := b.text.Read(p)
	if errors.Is(err, io.EOF) && b.err != nil {
		err = b.err
	}
	return n, err
}

// values counts what separates values in JSON text: commas, colons and opening brackets outside of strings.
func values(text []byte) (n int) {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case ',', ':', '[', '{':
			n++
		case '"':
			for i++; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return n
}

// inTime bounds how long the body of r may take to arrive: short for those who have not said who they are, and for short ones.
// Once it is here the connection has no deadline: answers last as long as runs.
func inTime(w http.ResponseWriter, r *http.Request, limit time.Duration) {
	if r.ContentLength == 0 || r.Body == nil {
		return
	}
	c := http.NewResponseController(w)
	if c.SetReadDeadline(time.Now().Add(limit)) != nil {
		return // a writer of a test, which has no connection
	}
	if timed, ok := r.Body.(*timedBody); ok {
		r.Body = timed.ReadCloser
	}
	r.Body = &timedBody{r.Body, func() { _ = c.SetReadDeadline(time.Time{}) }}
}

type timedBody struct {
	io.ReadCloser

	arrived func()
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.arrived()
	}
	return n, err
}

// patient is an answer of any length to a client that reads: one that has not taken a piece in sendTimeout is given up.
type patient struct{ http.ResponseWriter }

// Write implements io.Writer.
func (p patient) Write(b []byte) (int, error) {
	_ = http.NewResponseController(p.ResponseWriter).SetWriteDeadline(time.Now().Add(sendTimeout)) // a test's writer has none
	return p.ResponseWriter.Write(b)
}

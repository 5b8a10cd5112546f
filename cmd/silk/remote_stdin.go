package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/internal/pipe"
)

// feeder sends what a reader has to the program of a run, piece by piece, each when the server has taken the one before. A piece
// that got no answer is sent again.
type feeder struct {
	client *client.Client
	run    string
	in     io.Reader
	sent   int64 // bytes of input that the run has got

	patience time.Duration // with a server that gives no answer
}

// inputBytes is the largest piece: half of what a server holds for a program that does not read.
const inputBytes = 512 << 10

const (
	inputWait    = 20 * time.Millisecond // until a program that does not read is asked again
	maxInputWait = time.Second

	inputPatience = 2 * time.Minute // as for the run's stream
)

// newFeeder makes a feeder. stop ends a read that waits; nil: the system cannot.
func newFeeder(c *client.Client, run string, in io.Reader) (_ *feeder, stop func()) {
	f := &feeder{client: c, run: run, in: in, patience: inputPatience}
	if file, ok := in.(*os.File); ok {
		if r, stop, err := pipe.Interruptible(file); err == nil {
			f.in = r
			return f, stop
		}
	}
	return f, nil
}

// feed sends everything, and the end. It returns nil when the run has ended before.
func (f *feeder) feed(ctx context.Context) error {
	buf := make([]byte, inputBytes)
	for {
		n, err := f.in.Read(buf)
		if n > 0 {
			if ended, err := f.send(ctx, piece(buf[:n])); ended || err != nil {
				return err
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("read it: %w", err)
		}
		if err != nil {
			_, err := f.send(ctx, api.Input{End: true})
			return err
		}
	}
}

// piece is p for the wire: as text if it is that.
func piece(p []byte) api.Input {
	if utf8.Valid(p) && !wasteful(p) {
		return api.Input{Data: string(p)}
	}
	return api.Input{B64: encodeBase64(p)}
}

// wasteful says whether p is long and would be much longer as a JSON string, where a control character takes six bytes. It is the
// rule by which package run chooses.
func wasteful(p []byte) bool {
	if len(p) <= 64<<10 {
		return false
	}
	controls := 0
	for _, c := range p {
		if c < ' ' && c != '\n' && c != '\t' && c != '\r' {
			controls++
		}
	}
	return controls > len(p)/16
}

// send sends one piece, once the program has room for it. ended says that the run has ended.
func (f *feeder) send(ctx context.Context, in api.Input) (ended bool, err error) {
	wait := inputWait
	unanswered := false
	for heard := time.Now(); ; {
		at := f.sent
		in.Offset = &at
		next, err := f.client.Input(ctx, f.run, in)
		if err == nil {
			f.sent = next
			return false, nil
		}
		var p *api.Problem
		switch answered := errors.As(err, &p); {
		case ctx.Err() != nil:
			return true, nil
		case !answered, p.Status >= http.StatusInternalServerError:
			if unanswered = true; time.Since(heard) > f.patience {
				return false, err
			}
		case p.Type == "urn:silk:input-offset" && p.Offset != nil && *p.Offset > at && !unanswered:
			f.sent, heard = *p.Offset, time.Now() // somebody else sends input too, or has before
			continue
		case p.Type == "urn:silk:input-offset":
			return false, fmt.Errorf("the run has got another part of its input than was sent: %w", err)
		case p.Status == http.StatusConflict:
			heard = time.Now()
			r, err := f.client.Run(ctx, f.run)
			if err != nil || r.State == api.StateEnded {
				return true, err
			}
		case p.Status == http.StatusTooManyRequests:
			heard = time.Now()
			wait = max(wait, time.Duration(p.RetryAfterMs)*time.Millisecond)
		default:
			return false, err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
			wait = min(2*wait, maxInputWait)
		case <-ctx.Done():
			t.Stop()
			return true, nil
		}
	}
}

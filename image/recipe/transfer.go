package recipe

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// permanentError is one that another attempt would not cure.
type permanentError struct{ error }

func (e *permanentError) Unwrap() error { return e.error }

var errStalled = errors.New("no data arrived for a minute")

// transfer appends to part what it lacks of it. On error the bytes that came are kept.
func (f *fetcher) transfer(ctx context.Context, it item, part *part) error {
	if it.size > 0 && part.size == it.size {
		return nil
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, it.url, nil)
	if err != nil {
		return &permanentError{unwrapURL(err)}
	}
	req.Header.Set("User-Agent", "silk")
	if part.size > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(part.size, 10)+"-")
	}
	resp, err := f.client.Do(req)
	if err != nil {
		return unwrapURL(err)
	}
	defer resp.Body.Close()
	if err := f.accept(resp, it, part); err != nil {
		return err
	}

	watchdog := time.AfterFunc(f.stall, func() { cancel(errStalled) })
	defer watchdog.Stop()
	buf := make([]byte, 128<<10)
	for {
		n, err := resp.Body.Read(buf)
		watchdog.Reset(f.stall)
		if part.size+int64(n) > it.bound() {
			return errors.Join(&permanentError{&mismatchError{it.label, "more bytes", strconv.FormatInt(it.bound(), 10)}}, part.truncate())
		}
		if _, err := part.Write(buf[:n]); err != nil {
			return diskError(part.dir(), err)
		}
		f.report(int64(n))
		switch {
		case errors.Is(err, io.EOF):
			if it.size > 0 && part.size < it.size {
				return io.ErrUnexpectedEOF
			}
			return nil
		case err != nil:
			if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
				return cause
			}
			return err
		}
	}
}

// accept judges the answer's head and brings part to the offset at which the body begins.
func (f *fetcher) accept(resp *http.Response, it item, part *part) error {
	restart := func() error {
		f.report(-part.size)
		return part.truncate()
	}
	switch code := resp.StatusCode; {
	case code == http.StatusPartialContent:
		if want := fmt.Sprintf("bytes %d-", part.size); !strings.HasPrefix(resp.Header.Get("Content-Range"), want) {
			return errors.Join(fmt.Errorf("asked for %q, received %q", want, resp.Header.Get("Content-Range")), restart())
		}
		return nil
	case code == http.StatusOK:
		return restart()
	case code == http.StatusRequestedRangeNotSatisfiable:
		return errors.Join(errors.New("the partial file was of no use"), restart())
	case code == http.StatusNotFound || code == http.StatusGone:
		return &permanentError{&goneError{it.label, resp.Status}}
	case code == http.StatusTooManyRequests || code == http.StatusRequestTimeout || code >= 500:
		return errors.New(resp.Status)
	default:
		return &permanentError{errors.New(resp.Status)}
	}
}

// diskError turns a full disk into a sentence that says what to do; it is permanent either way.
func diskError(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return &permanentError{fmt.Errorf("the disk that holds %s is full; free some space and start again, what was downloaded is kept: %w", dir, err)}
	}
	return &permanentError{err}
}

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// downloadAttempts is how often in a row an artifact is asked for without a byte of it arriving.
const downloadAttempts = 5

// Artifact opens an artifact of a run at its byte from. The name is that of the outcome's list. When the connection breaks, the
// reader takes up where it was; that the file is another one by then, or that it stays cut off, is an error of Read. The end of
// ctx ends it. The caller closes it. Nothing here looks at name: who writes the bytes to a disk must not trust it.
func (c *Client) Artifact(ctx context.Context, run, name string, from int64) (io.ReadCloser, error) {
	d := &download{client: c, ctx: ctx, path: runPath(run, "/artifact"), name: name, at: from}
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

// download is an artifact that arrives.
type download struct {
	client *Client
	ctx    context.Context //nolint:containedctx // of the caller of Artifact, as http.Request has it
	path   string
	name   string
	at     int64  // the next byte
	end    int64  // the size of the whole
	tag    string // ETag of the first answer
	body   io.ReadCloser
	tries  backoff
	err    error // for ever
}

// open asks for the rest.
func (d *download) open() error {
	h := http.Header{}
	if d.at > 0 {
		h.Set("Range", fmt.Sprintf("bytes=%d-", d.at))
		if d.tag != "" {
			h.Set("If-Range", d.tag)
		}
	}
	resp, err := d.client.send(d.ctx, call{method: http.MethodGet, path: d.path, query: url.Values{"path": {d.name}}, header: h})
	if err != nil {
		return err
	}
	if err := d.accept(resp); err != nil {
		resp.Body.Close()
		return fmt.Errorf("get artifact %q: %w", d.name, err)
	}
	d.body = resp.Body
	return nil
}

// accept checks that an answer is the part that was asked for, of the same file as before.
func (d *download) accept(resp *http.Response) error {
	from, end := int64(0), resp.ContentLength
	if resp.StatusCode == http.StatusPartialContent {
		var err error
		if from, end, err = parseRange(resp.Header.Get("Content-Range")); err != nil {
			return err
		}
	}
	tag := resp.Header.Get("ETag")
	switch {
	case d.tag != "" && (tag != d.tag || end != d.end):
		return errors.New("it is another file now")
	case from != d.at:
		return fmt.Errorf("the server sends it from byte %d, and not from byte %d", from, d.at)
	case end < d.at:
		return errors.New("the server does not say how large it is")
	}
	d.tag, d.end = tag, end
	return nil
}

// parseRange reads "bytes 5-9/10" (RFC 9110 section 14.4).
func parseRange(text string) (from, size int64, err error) {
	span, whole, ok := strings.Cut(strings.TrimPrefix(text, "bytes "), "/")
	first, last, ok2 := strings.Cut(span, "-")
	from, err1 := strconv.ParseInt(first, 10, 64)
	to, err2 := strconv.ParseInt(last, 10, 64)
	size, err3 := strconv.ParseInt(whole, 10, 64)
	if !ok || !ok2 || err1 != nil || err2 != nil || err3 != nil || from < 0 || to != size-1 {
		return 0, 0, fmt.Errorf("the server answers with the range %.100q", text)
	}
	return from, size, nil
}

// Read implements io.Reader.
func (d *download) Read(p []byte) (int, error) {
	for d.err == nil {
		if d.body == nil {
			if d.err = d.open(); d.err != nil && passing(d.err) && d.tag != "" && d.tries.attempts < downloadAttempts && d.ctx.Err() == nil {
				d.err = d.tries.wait(d.ctx, d.err)
			}
			continue
		}
		n, err := d.body.Read(p[:min(int64(len(p)), d.end-d.at)])
		d.at += int64(n)
		if n > 0 {
			d.tries = backoff{}
		}
		switch {
		case d.at == d.end:
			d.err = io.EOF
		case err != nil:
			d.drop()
			if d.tag == "" || d.tries.attempts >= downloadAttempts {
				d.err = d.client.unreached(d.ctx, io.ErrUnexpectedEOF)
			} else {
				d.err = d.tries.wait(d.ctx, nil)
			}
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
	return 0, d.err
}

func (d *download) drop() {
	d.body.Close()
	d.body = nil
}

// Close implements io.Closer.
func (d *download) Close() error {
	if d.err == nil || d.err == io.EOF { //nolint:errorlint // our own
		d.err = errors.New("read artifact: it is closed")
	}
	if d.body != nil {
		d.drop()
	}
	return nil
}

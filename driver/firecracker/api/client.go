package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// maxAnswer bounds an answer, in bytes. The longest that we ask for is a state of four words.
const maxAnswer = 64 << 10

// Client asks one process. It is safe for concurrent use.
type Client struct{ http *http.Client }

// New makes a client of the process whose API socket dial connects to. Nothing is asked yet.
func New(dial func(ctx context.Context) (net.Conn, error)) *Client {
	return &Client{&http.Client{Transport: &http.Transport{
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableKeepAlives: true, // a process is asked a few times in its life
	}}}
}

// Fault is what Firecracker refuses a request with.
type Fault struct {
	Call    string // method and path
	Status  int    // of HTTP
	Message string // its fault_message; printable
}

func (f *Fault) Error() string {
	return fmt.Sprintf("firecracker, %s: %d: %s", f.Call, f.Status, f.Message)
}

// Info is what a process says of itself.
type Info struct {
	ID      string `json:"id"`
	State   string `json:"state"` // "Not started", "Running", "Paused"
	App     string `json:"app_name"`
	Version string `json:"vmm_version"`
}

// Info asks what the process is.
func (c *Client) Info(ctx context.Context) (i Info, err error) {
	return i, c.do(ctx, Call{Method: "GET", Path: "/"}, &i)
}

// Version asks for the version, such as "1.16.1".
func (c *Client) Version(ctx context.Context) (string, error) {
	var v struct {
		Version string `json:"firecracker_version"`
	}
	err := c.do(ctx, Call{Method: "GET", Path: "/version"}, &v)
	return v.Version, err
}

// Await waits until the process answers, which takes some 10 ms, or ctx is done.
func (c *Client) Await(ctx context.Context) (Info, error) {
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		i, err := c.Info(ctx)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) { // no socket yet, or nobody at it yet
			return i, err
		}
		select {
		case <-ctx.Done():
			return i, fmt.Errorf("wait for the API of firecracker: %w", context.Cause(ctx))
		case <-time.After(wait):
		}
	}
}

// Start makes the machine, and starts it. After an error there is none that runs, but the process may have parts of it.
func (c *Client) Start(ctx context.Context, m Machine) error {
	for _, call := range m.Calls() {
		if err := c.do(ctx, call, nil); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) do(ctx context.Context, call Call, answer any) error {
	name := call.Method + " " + call.Path
	var body io.Reader
	if call.Body != nil {
		b, err := json.Marshal(call.Body)
		if err != nil {
			return fmt.Errorf("firecracker, %s: %w", name, err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, call.Method, "http://localhost"+call.Path, body)
	if err != nil {
		return fmt.Errorf("firecracker, %s: %w", name, err)
	}
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("firecracker, %s: %w", name, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("firecracker, %s: read the answer: %w", name, err)
	}
	if res.StatusCode/100 != 2 {
		return &Fault{name, res.StatusCode, faultMessage(b)}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(b, answer); err != nil {
		return fmt.Errorf("firecracker, %s: read the answer: %w", name, err)
	}
	return nil
}

// faultMessage is what an answer gives as its reason, or the answer's beginning.
func faultMessage(b []byte) string {
	var fault struct {
		Message string `json:"fault_message"`
	}
	if json.Unmarshal(b, &fault) != nil || fault.Message == "" {
		fault.Message = string(b)
	}
	const most = 1000
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, fault.Message[:min(len(fault.Message), most)])
}

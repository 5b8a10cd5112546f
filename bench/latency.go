//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/silk-sandbox/silk/api"
)

// latencies are how long lines took from a program's write to a client, sorted.
type latencies struct {
	what    string
	streams int
	took    []time.Duration
}

func (l latencies) at(share float64) time.Duration {
	return l.took[min(len(l.took)-1, int(share*float64(len(l.took))))]
}

var latencyArgs = []string{"python3", "-c", fmt.Sprintf("import time\nfor i in range(%d):\n  print(time.time_ns(), flush=True)\n  time.sleep(%g)", latencyLines, latencyEvery.Seconds())}

// many runs n streams at once and joins what they measured.
func many(n int, one func() ([]time.Duration, error)) ([]time.Duration, error) {
	var mu sync.Mutex
	var all []time.Duration
	var faults []error
	var streams sync.WaitGroup
	for range n {
		streams.Go(func() {
			took, err := one()
			mu.Lock()
			defer mu.Unlock()
			all, faults = append(all, took...), append(faults, err)
		})
	}
	streams.Wait()
	slices.Sort(all)
	if err := errors.Join(faults...); err != nil || len(all) == n*latencyLines {
		return all, err
	}
	return nil, fmt.Errorf("%d lines came, want %d", len(all), n*latencyLines)
}

// arrivals notes how long whole lines took to here. A line is the time of its writing, in ns.
type arrivals struct {
	partial string
	took    []time.Duration
	err     error
}

func (a *arrivals) add(text string) {
	now := time.Now()
	a.partial += text
	for {
		line, rest, ok := strings.Cut(a.partial, "\n")
		if !ok {
			return
		}
		a.partial = rest
		ns, err := strconv.ParseInt(line, 10, 64)
		a.took, a.err = append(a.took, now.Sub(time.Unix(0, ns))), errors.Join(a.err, err)
	}
}

// stream measures one run of the service.
func (s *service) stream(ctx context.Context) ([]time.Duration, error) {
	var lines arrivals
	err := s.run(ctx, latencyImage, latencyArgs, func(f api.Frame) { lines.add(f.Data) })
	return lines.took, errors.Join(err, lines.err)
}

// pipeStream measures the least that there is for the same program under c: what it prints comes out of a pipe, and a handler
// sends what it reads from there over a WebSocket to a client in this process, as the service and its client do.
func pipeStream(ctx context.Context, c contender, img rootfs) (took []time.Duration, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	server := &http.Server{ReadHeaderTimeout: serviceStart, Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		ws, err := websocket.Accept(rw, req, nil)
		if err != nil {
			ended <- err
			return
		}
		defer ws.CloseNow()
		ended <- errors.Join(forward(req.Context(), ws, c, img), ws.Close(websocket.StatusNormalClosure, ""))
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		err = errors.Join(err, server.Close())
		<-served
	}()
	ws, _, err := websocket.Dial(ctx, "http://"+l.Addr().String(), nil) //nolint:bodyclose // the library's
	if err != nil {
		return nil, err
	}
	defer ws.CloseNow()
	var lines arrivals
	for {
		_, text, err := ws.Read(ctx)
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			return lines.took, errors.Join(<-ended, lines.err)
		}
		if err != nil {
			return nil, err
		}
		lines.add(string(text))
	}
}

// forward starts the program and sends what it prints, as it is read.
func forward(ctx context.Context, ws *websocket.Conn, c contender, img rootfs) error {
	process, _, err := c.command(ctx, img, latencyArgs)
	if err != nil {
		return err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	for {
		n, err := out.Read(buf)
		if n > 0 {
			if err := ws.Write(ctx, websocket.MessageText, buf[:n]); err != nil {
				return errors.Join(err, process.Process.Kill(), process.Wait())
			}
		}
		if errors.Is(err, io.EOF) {
			return process.Wait()
		}
		if err != nil {
			return errors.Join(err, process.Process.Kill(), process.Wait())
		}
	}
}

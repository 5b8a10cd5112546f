//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
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

var latencyProgram = fmt.Sprintf("import time\nfor i in range(%d):\n  print(time.time_ns(), flush=True)\n  time.sleep(%g)", latencyLines, latencyEvery.Seconds())

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
	return all, errors.Join(faults...)
}

// since is how long ago the time is that a line has, in ns.
func since(line string) (time.Duration, error) {
	ns, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return time.Since(time.Unix(0, ns)), err
}

// stream measures one run of the service.
func (s *service) stream(ctx context.Context) (took []time.Duration, err error) {
	text := ""
	err = s.run(ctx, "lab:python", []string{"python3", "-c", latencyProgram}, func(f api.Frame) {
		text += f.Data
		for {
			line, rest, ok := strings.Cut(text, "\n")
			if !ok {
				return
			}
			text = rest
			if d, err := since(line); err == nil {
				took = append(took, d)
			}
		}
	})
	if err == nil && len(took) != latencyLines {
		err = fmt.Errorf("the service sent %d lines, want %d", len(took), latencyLines)
	}
	return took, err
}

// bareStream measures the least that there is: a goroutine writes lines to a pipe, another sends what it reads over a WebSocket of
// this process, a third receives them.
func bareStream(ctx context.Context) (took []time.Duration, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	if err != nil {
		return nil, err
	}
	server := &http.Server{ReadHeaderTimeout: serviceStart, Handler: http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		c, err := websocket.Accept(rw, req, nil)
		if err != nil {
			return
		}
		defer c.CloseNow()
		buf := make([]byte, 64<<10)
		for {
			n, err := r.Read(buf)
			if err != nil || c.Write(req.Context(), websocket.MessageText, buf[:n]) != nil {
				break
			}
		}
		_ = c.Close(websocket.StatusNormalClosure, "")
	})}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		err = errors.Join(err, server.Close(), r.Close())
		<-served
	}()
	c, _, err := websocket.Dial(ctx, "http://"+l.Addr().String(), nil) //nolint:bodyclose // the library's
	if err != nil {
		return nil, err
	}
	defer c.CloseNow()
	go func() {
		defer w.Close()
		tick := time.NewTicker(latencyEvery)
		defer tick.Stop()
		for range latencyLines {
			<-tick.C
			if _, err := fmt.Fprintln(w, time.Now().UnixNano()); err != nil {
				return
			}
		}
	}()
	for {
		_, text, err := c.Read(ctx)
		if websocket.CloseStatus(err) == websocket.StatusNormalClosure {
			return took, nil
		}
		if err != nil {
			return took, err
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		for lines.Scan() {
			d, err := since(lines.Text())
			if err != nil {
				return took, err
			}
			took = append(took, d)
		}
	}
}

//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// service is `silk serve`, spoken to over its unix socket by WebSocket, as clients do.
type service struct {
	home    string
	process *exec.Cmd
	client  *http.Client
	stderr  bytes.Buffer
}

// serviceStart bounds how long the service may take until it answers.
const serviceStart = 30 * time.Second

// startService starts the service in the state directory home, with the images of cfg.
func startService(ctx context.Context, cfg config, home string) (_ *service, err error) {
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(home, "config.yaml")
	if err := atomicfile.Write(file, fmt.Appendf(nil, "system_store: %q\nserve: {listen: \"\", running: 32}\n", cfg.images()), 0o600); err != nil {
		return nil, err
	}
	s := &service{home: home, process: cmd(ctx, cfg.server, "serve")}
	s.process.Env = append(os.Environ(), "SILK_HOME="+home, "SILK_CONFIG="+file)
	s.process.Stderr = &s.stderr
	socket := filepath.Join(home, "silk.sock")
	s.client = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	if err := s.process.Start(); err != nil {
		return nil, fmt.Errorf("start the service: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	for end := time.Now().Add(serviceStart); ; {
		resp, err := s.client.Get("http://localhost/readyz") //nolint:noctx // a file that is not there answers at once
		if err == nil {
			return s, resp.Body.Close()
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the service does not answer: %w: %s", err, lastLines(s.stderr.String()))
		}
		if err := settle(ctx); err != nil {
			return nil, err
		}
	}
}

func (s *service) stop() error {
	s.client.CloseIdleConnections()
	if err := s.process.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return s.process.Wait()
}

// run asks for a run and calls each for its frames until the exit frame.
func (s *service) run(ctx context.Context, tag string, args []string, each func(api.Frame)) error {
	id, err := s.ask(ctx, tag, args)
	if err != nil {
		return err
	}
	return s.watch(ctx, id, each)
}

// ask asks for a run.
func (s *service) ask(ctx context.Context, tag string, args []string) (id string, err error) {
	body, err := json.Marshal(api.RunRequest{Profile: tag, Args: args})
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/v1/runs", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("ask the service for a run: %w", err)
	}
	var r api.Run
	err = json.NewDecoder(resp.Body).Decode(&r)
	if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != http.StatusCreated {
		return "", fmt.Errorf("ask the service for a run: %d, %w", resp.StatusCode, err)
	}
	return r.ID, nil
}

// dial attaches a viewer, when the service says that it takes one: it has a limit of requests per second.
func (s *service) dial(ctx context.Context, id string) (*websocket.Conn, error) {
	for {
		c, resp, err := websocket.Dial(ctx, "http://localhost/v1/runs/"+id+"/stream?stdout=0", &websocket.DialOptions{HTTPClient: s.client, Subprotocols: []string{api.Subprotocol}}) //nolint:bodyclose // the library's
		if err == nil || resp == nil || resp.StatusCode != http.StatusTooManyRequests {
			return c, err
		}
		seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err != nil {
			return nil, err
		}
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// watch calls each for the frames of a run until the exit frame.
func (s *service) watch(ctx context.Context, id string, each func(api.Frame)) error {
	c, err := s.dial(ctx, id)
	if err != nil {
		return fmt.Errorf("watch run %s: %w", id, err)
	}
	defer c.CloseNow()
	c.SetReadLimit(1 << 20)
	for {
		_, text, err := c.Read(ctx)
		if err != nil {
			return fmt.Errorf("watch run %s: %w", id, err)
		}
		var f api.Frame
		if err := json.Unmarshal(text, &f); err != nil {
			return err
		}
		if f.Type == api.FrameGap {
			return fmt.Errorf("run %s has a gap in its output", id)
		}
		each(f)
		if f.Type == api.FrameExit {
			if f.Outcome.Kind != "ok" {
				return fmt.Errorf("run %s ended with %s: %s", id, f.Outcome.Kind, f.Outcome.Message)
			}
			return nil
		}
	}
}

// What a stream of the comparison prints: lines with the time. Twenty of them at once keep two processors a tenth busy.
const (
	latencyLines = 100
	latencyEvery = 50 * time.Millisecond
)

// measureService measures all of the service, which lives twice: the second time it has many runs behind it.
func (r *report) measureService(ctx context.Context, cfg config, scratch string, present []contender, roots map[string]rootfs) error {
	home := filepath.Join(scratch, "service")
	err := served(ctx, cfg, home, func(s *service) error {
		return errors.Join(r.measureRuns(ctx, cfg, s, present, roots), r.measureLatency(ctx, s, present, roots), r.measureViewers(ctx, s, cfg))
	})
	if err != nil {
		return err
	}
	if err := fillRuns(ctx, home); err != nil {
		return err
	}
	return served(ctx, cfg, home, func(s *service) error { return r.measureLists(ctx, s) })
}

// served calls do with a service that runs.
func served(ctx context.Context, cfg config, home string, do func(*service) error) (err error) {
	s, err := startService(ctx, cfg, home)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	return do(s)
}

// measureRuns compares request to exit with runc.
func (r *report) measureRuns(ctx context.Context, cfg config, s *service, present []contender, roots map[string]rootfs) error {
	var starters []starter
	for _, c := range present {
		if c.name == "runc" {
			starters = append(starters, c.timed(roots))
		}
	}
	starters = append(starters, starter{serviceName, func(ctx context.Context, p program) (sample, error) {
		if err := settle(ctx); err != nil { // the kernel that waits for runs is made anew after each
			return sample{}, err
		}
		var out strings.Builder
		start := time.Now()
		err := s.run(ctx, p.tag, p.args, func(f api.Frame) { out.WriteString(f.Data) })
		return sample{wall: time.Since(start), out: out.String()}, err
	}})
	for _, p := range startPrograms {
		c, err := compare(ctx, cfg.n, p, starters)
		if err != nil {
			return err
		}
		r.service = append(r.service, c)
	}
	return nil
}

// measureLatency compares the way of lines from the service's runs with that from the same program elsewhere.
func (r *report) measureLatency(ctx context.Context, s *service, present []contender, roots map[string]rootfs) error {
	ways := map[string]func() ([]time.Duration, error){serviceName: func() ([]time.Duration, error) { return s.stream(ctx) }}
	order := []string{barest, "runsc", serviceName}
	for _, c := range present {
		if c.name == barest || c.name == "runsc" {
			ways[c.name] = func() ([]time.Duration, error) { return pipeStream(ctx, c, roots[latencyImage]) }
		}
	}
	for _, streams := range []int{1, 20} {
		for _, name := range order {
			if ways[name] == nil {
				continue
			}
			took, err := many(streams, ways[name])
			if err != nil && name != serviceName { // a peer that does not bear so many is left out
				progress("latency of %d streams of %s: %v", streams, name, err)
				continue
			}
			if err != nil {
				return fmt.Errorf("latency of %d streams: %w", streams, err)
			}
			r.latency = append(r.latency, latencies{name, streams, took})
		}
		progress("latency of %d streams", streams)
	}
	return nil
}

// timed is a starter without a meter, which would wait for the service as for an orphan: wall time only.
func (c contender) timed(roots map[string]rootfs) starter {
	return starter{c.name, func(ctx context.Context, p program) (sample, error) {
		process, _, err := c.command(ctx, roots[p.tag], p.args)
		if err != nil {
			return sample{}, err
		}
		start := time.Now()
		out, err := process.Output()
		if err != nil {
			return sample{}, fmt.Errorf("%s: run %s: %w", c.name, p.title, err)
		}
		return sample{wall: time.Since(start), out: string(out)}, nil
	}}
}

const (
	serviceName  = "silk serve"
	barest       = "plain"
	latencyImage = "lab:python"
)

func (r report) writeService(b *strings.Builder) {
	if len(r.service) == 0 {
		return
	}
	b.WriteString("## Service\n\n`silk serve`: from the request to the exit frame, over its socket and a WebSocket, accepted requests on the disk; with a sandbox\n" +
		"kernel that waits for runs. runc ran in the same rounds.\n\n")
	for _, c := range r.service {
		writeStarts(b, c)
	}
	fmt.Fprintf(b, "From a program's write to a client, %d lines of each stream, one every %v, the program's start not counted. The others' output\n"+
		"comes out of a pipe, and what is read there is sent over a WebSocket as it is: the least that there is for the same program.\n\n"+
		"| | streams | p50, ms | p99, ms | p50 x plain |\n|---|---:|---:|---:|---:|\n", latencyLines, latencyEvery)
	for _, l := range r.latency {
		fmt.Fprintf(b, "| %s | %d | %.2f | %.2f | %s |\n", l.what, l.streams, ms(l.at(0.5)), ms(l.at(0.99)), ratio(l.at(0.5), r.halfway(barest, l.streams)))
	}
	b.WriteString("\n")
	r.writeViewers(b)
	r.writeLists(b)
}

// halfway is the median of a contender's latencies; zero if they were not measured.
func (r report) halfway(what string, streams int) time.Duration {
	for _, l := range r.latency {
		if l.what == what && l.streams == streams {
			return l.at(0.5)
		}
	}
	return 0
}

package egress

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/record"
)

// processes are those that come from this one and are not dead, by what they were called when they started.
func processes(t *testing.T) map[int]string {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	parents := map[int]int{}
	for _, dir := range dirs {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		stat, err := os.ReadFile(filepath.Join(dir, "stat"))
		_, rest, _ := bytes.Cut(stat, []byte(") "))
		if f := bytes.Fields(rest); err == nil && len(f) > 1 && string(f[0]) != "Z" { // proc(5): state, ppid
			parents[pid], _ = strconv.Atoi(string(f[1]))
		}
	}
	all := map[int]string{}
	for pid := range parents {
		above := parents[pid]
		for above > 1 && above != os.Getpid() {
			above = parents[above]
		}
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if above == os.Getpid() && err == nil {
			all[pid] = string(bytes.ReplaceAll(line, []byte{0}, []byte{' '}))
		}
	}
	return all
}

// atFault is the exit status of silk when silk itself, or the host, was at fault.
const atFault = 125

// TestDeathOfTheGateway: without its gateway a sandbox has no network, its program learns of it, and the run ends as an error of the host, with its record.
func TestDeathOfTheGateway(t *testing.T) {
	const code = `
import socket, sys
def tried(f, *args):
    try:
        return str(f(*args))
    except OSError as e:
        return type(e).__name__
s = socket.create_connection(("api.test", 7), 2)
s.sendall(b"w51rw")
s.recv(10)
print("ready", flush=True)
sys.stdin.readline()
print(tried(s.sendall, b"WORD"), tried(s.recv, 10))
print(tried(socket.create_connection, ("93.184.215.14", 7), 2))
print("the end")
`
	for i, as := range whos {
		t.Run(as.name, func(t *testing.T) {
			w := enterWorld(t)
			s := newSilk(t, as, "", python)
			word := fmt.Sprintf("w%d%sw", 52+i, as.name[:1])
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("silk did not end"))
			defer cancel()
			cmd := s.Command(ctx, s.command("-i", "-p", python, "--net", "tcp:api.test:7,93.184.215.14:7", "--timeout", "50s", "-c", strings.ReplaceAll(code, "WORD", word))...)
			stdin, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			stdout, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			before := processes(t)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(stdout)
			if !lines.Scan() || lines.Text() != "ready" {
				t.Fatalf("%q, %v; %s", lines.Text(), lines.Err(), stderr.String())
			}
			killed := 0
			for pid, name := range processes(t) {
				if _, old := before[pid]; !old && strings.HasPrefix(name, "silk-gateway") {
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						t.Error(err)
					}
					killed++
				}
			}
			if killed != 1 {
				t.Fatalf("%d gateways: %v", killed, processes(t))
			}
			if _, err := fmt.Fprintln(stdin, "go on"); err != nil {
				t.Error(err)
			}
			var rest []string
			for lines.Scan() {
				rest = append(rest, lines.Text())
			}
			err = cmd.Wait()
			if status := cmd.ProcessState.ExitCode(); status != atFault || !strings.Contains(stderr.String(), "the gateway process has died") {
				t.Errorf("silk ended with %v: %s", err, stderr.String())
			}
			if len(rest) != 3 || rest[2] != "the end" || strings.Contains(rest[0], word) || strings.HasPrefix(rest[1], "<") {
				t.Errorf("the program says %q", rest)
			}
			if seen := w.of(word, ""); len(seen) > 0 {
				t.Errorf("something got out: %q", seen)
			}
			runs := decode[[]record.Record](t, s, "runs", "ls", "--json")
			if len(runs) != 1 || runs[0].Outcome.Kind != "error" || !strings.Contains(runs[0].Outcome.Message, "the network was lost while the program ran") {
				t.Errorf("the record: %+v", runs)
			}
		})
	}
}

// listing are the files below a directory, with what names of runs and numbers they have left out.
func listing(t *testing.T, dir string) (names []string) {
	t.Helper()
	id := regexp.MustCompile(`[0-9A-HJKMNP-TV-Z]{26}`)
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		names = append(names, id.ReplaceAllString(path, "RUN"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// sockets are the unix sockets of this network namespace.
func sockets(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(text, []byte("\n"))
}

// TestNothingIsLeft: fifty runs that reach something and are kept from something leave nothing but their records.
func TestNothingIsLeft(t *testing.T) {
	for _, as := range whos {
		t.Run(as.name, func(t *testing.T) {
			s := newSilk(t, as, "", curl)
			once := func() {
				got, err := s.run(t.Context(), "-p", "curl", "--net", "api.test:80", "--", "curl", "-sS", "http://api.test/", "http://other.test/")
				if err != nil || !strings.HasPrefix(text(got.outcome.Stdout), "hello from http") || len(got.outcome.Egress) != 2 {
					t.Errorf("%v: %s%s, %+v", err, text(got.outcome.Stdout), got.stderr, got.outcome.Egress)
				}
			}
			once() // what silk unpacks once
			files, running, open := listing(t, s.Dir), processes(t), sockets(t)
			var all sync.WaitGroup
			slots := make(chan struct{}, 2)
			for range 25 { // for each
				slots <- struct{}{}
				all.Go(func() {
					once()
					<-slots
				})
			}
			all.Wait()
			if now := listing(t, s.Dir); !slices.Equal(now, files) {
				t.Errorf("files:\n%s\nthere were:\n%s", strings.Join(now, "\n"), strings.Join(files, "\n"))
			}
			now := processes(t)
			for began := time.Now(); len(now) > len(running) && time.Since(began) < time.Minute; now = processes(t) { // an engine has some of its own, which end a little later
				<-time.After(20 * time.Millisecond)
			}
			if len(now) > len(running) {
				t.Errorf("processes: %v; there were %v", now, running)
			}
			if now := sockets(t); now > open {
				t.Errorf("%d sockets; there were %d", now, open)
			}
		})
	}
}

// serve starts `silk serve`, which ends with the test, and returns its client.
func (s silk) serve(ctx context.Context, t *testing.T) *client.Client {
	t.Helper()
	cmd := s.Command(context.WithoutCancel(ctx), "serve")
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait()); err != nil {
			t.Errorf("the server's end: %v: %s", err, log.String())
		}
	})
	c, err := client.New(client.Config{URL: "unix://" + filepath.Join(s.Dir, "home", "silk.sock")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for c.Ready(ctx) != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatal(context.Cause(ctx))
		}
	}
	return c
}

// serverConfig lets clients of a server reach two hosts without asking.
const serverConfig = "grants: {hosts: ['api.test:80', 'other.test:80']}\nserve: {listen: ''}\n"

// TestShared: sandboxes that share a gateway process reach what they may, each its own.
func TestShared(t *testing.T) {
	w := enterWorld(t)
	s := newSilk(t, root, serverConfig, python)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the server takes too long"))
	defer cancel()
	c := s.serve(ctx, t)
	code := `
import socket, sys
def get(name, word):
    try:
        with socket.create_connection((name, 80), 10) as s:
            s.sendall(f"GET /{word} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            return s.recv(15)
    except OSError as e:
        return e
api, other = sys.argv[1:]
print("READY", flush=True)
sys.stdin.readline()
print(get("api.test", api), get("other.test", other), flush=True)
`
	runs := map[string][]string{"api.test:80": {"w81rw", "w82rw"}, "other.test:80": {"w83rw", "w84rw"}}
	var ready, all sync.WaitGroup
	ready.Add(len(runs))
	for host, words := range runs {
		r, err := c.Submit(ctx, api.RunRequest{Profile: python, Code: &code, Args: words, Hosts: []string{host}, StdinOpen: true}, "")
		if err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			came := sync.OnceFunc(ready.Done)
			defer came()
			for f, err := range c.Watch(r.ID, client.Cursor{}).Frames(ctx) {
				if err != nil {
					t.Error(err)
					return
				}
				if data, _ := f.Bytes(); f.Type == api.FrameOutput && bytes.Contains(data, []byte("READY")) {
					came()
					ready.Wait() // both run
					if _, err := c.Input(ctx, r.ID, api.Input{Data: "go\n", End: true}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	ready.Wait()
	gateways := 0
	for _, name := range processes(t) {
		if strings.HasPrefix(name, "silk-gateway") {
			gateways++
		}
	}
	all.Wait()
	if gateways != 1 {
		t.Errorf("%d gateways", gateways)
	}
	for word, seen := range map[string]bool{"w81rw": true, "w82rw": false, "w83rw": false, "w84rw": true} {
		if got := w.of(word, ""); (len(got) > 0) != seen {
			t.Errorf("of %s is seen %q", word, got)
		}
	}
}

// TestServed: who watches a run that a server has sees what it reaches while it runs.
func TestServed(t *testing.T) {
	s := newSilk(t, root, serverConfig, python)
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the server takes too long"))
	defer cancel()
	c := s.serve(ctx, t)
	code := "import sys\nsys.stdin.readline()\n" + strays + "\nprint('READY', flush=True)\nsys.stdin.readline()\n"
	r, err := c.Submit(ctx, api.RunRequest{Profile: python, Code: &code, Hosts: []string{"api.test:80"}, StdinOpen: true}, "")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	var atOnce map[string]int
	watched := false
	for f, err := range c.Watch(r.ID, client.Cursor{}).Frames(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if !watched { // only now does the program begin
			if _, err := c.Input(ctx, r.ID, api.Input{Data: "begin\n"}); err != nil {
				t.Fatal(err)
			}
			watched = true
		}
		switch f.Type {
		case api.FrameEgress:
			seen[fmt.Sprintf("%s:%d %t %s", f.Host, f.Port, f.Allowed != nil && *f.Allowed, f.Rule)]++
		case api.FrameOutput:
			if data, _ := f.Bytes(); bytes.Contains(data, []byte("READY")) {
				atOnce = map[string]int{}
				for k, n := range seen {
					atOnce[k] = n
				}
				end := "the end\n"
				if _, err := c.Input(ctx, r.ID, api.Input{Data: end, End: true}); err != nil {
					t.Error(err)
				}
			}
		}
	}
	for _, want := range []string{"pypi.test:0 false name", "api.test:443 false port", "10.0.0.5:5432 false address", "93.184.215.14:443 false udp", "api.test:80 true "} {
		if seen[want] == 0 || atOnce[want] == 0 {
			t.Errorf("%d frames %q, %d of them while the program ran: %v", seen[want], want, atOnce[want], seen)
		}
	}
	out, err := c.Wait(ctx, r.ID)
	if err != nil || out.Kind != "ok" || len(out.Egress) != 5 {
		t.Errorf("%+v, %v", out, err)
	}
	text, err := c.Record(ctx, r.ID)
	var kept struct{ Outcome record.Outcome }
	if err = errors.Join(err, json.Unmarshal(text, &kept)); err != nil || len(kept.Outcome.Egress) != 5 {
		t.Errorf("the record: %v: %s", err, text)
	}
}

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// server is `silk serve` with a state directory of its own, spoken to over its unix socket.
type server struct {
	silk
	*testing.T
	cmd    *exec.Cmd
	ended  chan error
	log    *bytes.Buffer
	client *http.Client
}

func newServer(t *testing.T, config string) *server {
	t.Helper()
	return newServerIn(t, "", config)
}

// newServerIn is newServer with a state directory of the caller's.
func newServerIn(t *testing.T, home, config string) *server {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.Sentry)
	s := &server{silk: newSilk(t, "lab:text"), T: t}
	if home != "" {
		s.Home = home
	}
	f, err := os.OpenFile(s.Config, os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		if !strings.Contains(config, "listen:") {
			config = "  listen: \"\"\n" + config
		}
		_, err = io.WriteString(f, "serve:\n"+config)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(s.Home, "silk.sock")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	s.client = &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	t.Cleanup(func() {
		if s.cmd != nil {
			s.stop(syscall.SIGKILL)
		}
	})
	return s
}

// start starts the server and waits until it answers.
func (s *server) start(flags ...string) {
	s.Helper()
	if err := s.tryStart(flags...); err != nil {
		s.Fatal(err)
	}
}

// tryStart is start for a server that may have a reason not to.
func (s *server) tryStart(flags ...string) error {
	s.log = &bytes.Buffer{}
	s.cmd = s.Command(context.WithoutCancel(s.Context()), append([]string{"serve"}, flags...)...)
	s.cmd.Stderr = s.log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func(cmd *exec.Cmd) { ended <- cmd.Wait() }(s.cmd)
	s.ended = ended
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(time.Minute)
	for {
		if _, err := s.try("GET", "/readyz", ""); err == nil {
			return nil
		}
		select {
		case err := <-ended:
			s.cmd = nil
			return fmt.Errorf("silk serve ended: %w: %s", err, s.log)
		case <-late:
			return errors.New("silk serve does not answer")
		case <-tick.C:
		}
	}
}

// stop sends a signal and waits for the end.
func (s *server) stop(sig syscall.Signal) error {
	s.Helper()
	signal(s.T, s.cmd.Process.Pid, sig)
	select {
	case err := <-s.ended:
		s.cmd = nil
		return err
	case <-time.After(time.Minute):
		s.Fatalf("silk serve did not end: %s", s.log)
		return nil
	}
}

// try asks, and asks again if that was too often.
func (s *server) try(method, path, body string) ([]byte, error) {
	for {
		text, err := s.once(method, path, body)
		if err == nil || !strings.Contains(err.Error(), "urn:silk:rate") {
			return text, err
		}
		<-time.After(10 * time.Millisecond)
	}
}

func (s *server) once(method, path, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://localhost"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%d: %s", resp.StatusCode, text)
	}
	return text, err
}

func decodeAs[T any](s *server, method, path, body string) (v T) {
	s.Helper()
	text, err := s.try(method, path, body)
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	return v
}

// shell asks for a run of a shell script.
func (s *server) shell(script string) api.Run {
	s.Helper()
	body, err := json.Marshal(api.RunRequest{Profile: "lab:text", Args: []string{"sh", "-c", script}})
	if err != nil {
		s.Fatal(err)
	}
	return decodeAs[api.Run](s, "POST", "/v1/runs", string(body))
}

// frames reads the event stream of a run until stop says so, or its end.
func (s *server) frames(run string, stop func(api.Frame) bool) (err error) {
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/v1/runs/"+run+"/stream?stdout=0", nil)
	if err != nil {
		return err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var f api.Frame
		if err := json.Unmarshal([]byte(data), &f); err != nil {
			return err
		}
		if stop(f) || f.Type == api.FrameExit {
			return nil
		}
	}
	return errors.Join(lines.Err(), errors.New("the stream ended without an exit frame"))
}

// outcome waits for the end of a run.
func (s *server) outcome(run string) api.Outcome {
	s.Helper()
	var out api.Outcome
	err := s.frames(run, func(f api.Frame) bool {
		if f.Outcome != nil {
			out = *f.Outcome
		}
		return false
	})
	if err != nil {
		s.Fatalf("run %s: %v", run, err)
	}
	return out
}

// TestServe: a real program in a real sandbox, watched while it runs.
func TestServe(t *testing.T) {
	s := newServer(t, "")
	s.start()
	r := s.shell("echo one; sleep 0.3; echo two; echo three >&2; exit 4")
	var at []int64
	err := s.frames(r.ID, func(f api.Frame) bool {
		if f.Type == api.FrameOutput && f.Channel == "stdout" {
			at = append(at, *f.AtMs)
		}
		return false
	})
	if err != nil || len(at) != 2 || at[1]-at[0] < 200 {
		t.Errorf("lines at %v ms, %v; want two, a third of a second apart", at, err)
	}
	got := decodeAs[api.Run](s, "GET", "/v1/runs/"+r.ID, "")
	if got.Outcome == nil || got.Outcome.Kind != "failed" || *got.Outcome.ExitCode != 4 || got.Outcome.Driver != "gvisor" {
		t.Errorf("run %+v", got)
	}
	if text, err := s.try("GET", "/v1/runs/"+r.ID+"/output/stderr", ""); err != nil || string(text) != "three\n" {
		t.Errorf("stderr %q, %v", text, err)
	}
	if out := s.outcome(s.shell("cat /etc/shadow").ID); out.Kind != "violated" || out.Rule != "file.accounts" {
		t.Errorf("a violation: %+v", out)
	}
	second := s.Command(t.Context(), "serve")
	if out, err := second.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("another silk serve has the state directory")) {
		t.Errorf("a second server: %v: %s", err, out)
	}
	if err := s.stop(syscall.SIGTERM); err != nil {
		t.Errorf("silk serve: %v: %s", err, s.log)
	}
	checkState(t, s.silk)
}

// TestServeRoles accepts with one server, and runs with the next.
func TestServeRoles(t *testing.T) {
	s := newServer(t, "  listen: 127.0.0.1:0\n  roles: [worker]\n")
	s.start("--roles", "api")
	first, second := s.shell("echo one"), s.shell("echo two")
	if out, err := s.try("POST", "/v1/runs/"+second.ID+"/cancel", "{}"); err != nil {
		t.Errorf("cancel what waits: %v: %s", err, out)
	}
	if out := s.outcome(second.ID); out.Kind != "canceled" {
		t.Errorf("canceled while it waited: %+v", out)
	}
	reads := decodeAs[api.Run](s, "POST", "/v1/runs", `{"profile":"lab:text","args":["cat"],"stdin_open":true}`)
	if out, err := s.try("POST", "/v1/runs/"+reads.ID+"/stdin", `{"data":"early"}`); err == nil || !strings.Contains(err.Error()+string(out), "role api alone") {
		t.Errorf("input that nobody would keep: %v: %s", err, out)
	}
	if out, err := s.try("POST", "/v1/runs/"+reads.ID+"/cancel", "{}"); err != nil {
		t.Errorf("cancel: %v: %s", err, out)
	}
	if got := decodeAs[api.Run](s, "GET", "/v1/runs/"+first.ID, ""); got.State != api.StateQueued || got.Position != 1 {
		t.Errorf("without a worker: %+v", got)
	}
	if err := s.stop(syscall.SIGTERM); err != nil {
		t.Errorf("silk serve: %v: %s", err, s.log)
	}
	s.start()
	if out := s.outcome(first.ID); out.Kind != "ok" || out.Stdout.Bytes != 4 {
		t.Errorf("run by the worker: %+v", out)
	}
	if err := s.stop(syscall.SIGTERM); err != nil {
		t.Errorf("silk serve: %v: %s", err, s.log)
	}
	if n := strings.Count(s.log.String(), `"msg":"listening"`); n != 1 {
		t.Errorf("a worker listens at %d places, want the socket alone: %s", n, s.log)
	}
	checkState(t, s.silk)
}

// TestAPITour runs the tour of docs/howto/api.md against a server with a port.
func TestAPITour(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("curl is not installed")
	}
	s := newServer(t, "  listen: 127.0.0.1:0\n")
	s.start()
	address := ""
	await(t, func() bool { // the socket, which start waits for, is there first
		_, rest, _ := strings.Cut(s.log.String(), `"address":"`)
		address, _, _ = strings.Cut(rest, `"`)
		return address != ""
	})
	cmd := exec.CommandContext(t.Context(), "../../examples/api-tour", filepath.Join(s.Home, "silk.sock"))
	cmd.Env = append(os.Environ(), "SILK_ADDRESS="+address)
	if out, err := cmd.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("an approved run: ok")) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServeRefusesFewFiles: a server that could not run anything does not begin.
func TestServeRefusesFewFiles(t *testing.T) {
	s := newServer(t, "")
	cmd := s.Command(t.Context(), "serve")
	cmd.Args = []string{"sh", "-c", `ulimit -n 64 && exec "$0" serve`, cmd.Path}
	cmd.Path = "/bin/sh"
	if out, err := cmd.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("silk serve needs 1024")) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestServiceManager: systemd's protocol: a passed socket, READY, the watchdog, STOPPING (sd_notify(3), sd_listen_fds(3)).
func TestServiceManager(t *testing.T) {
	s := newServer(t, "")
	address := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer manager.Close()
	said := make(chan string, 1000)
	go func() {
		defer close(said)
		buf := make([]byte, 4096)
		for {
			n, err := manager.Read(buf)
			if err != nil {
				return
			}
			said <- string(buf[:n])
		}
	}()
	port, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	passed, err := port.File()
	if err != nil {
		t.Fatal(err)
	}
	defer passed.Close()
	cmd := s.Command(context.WithoutCancel(t.Context()), "serve")
	// The process that is asked for by LISTEN_PID is the one that this shell becomes.
	cmd.Args = append([]string{"sh", "-c", `LISTEN_PID=$$ exec "$0" serve`}, cmd.Path)
	cmd.Path = "/bin/sh"
	cmd.Env = append(cmd.Env, "NOTIFY_SOCKET="+address, "WATCHDOG_USEC=200000", "LISTEN_FDS=1")
	cmd.ExtraFiles = []*os.File{passed}
	s.log = &bytes.Buffer{}
	cmd.Stderr = s.log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd, s.ended = cmd, make(chan error, 1)
	go func() { s.ended <- cmd.Wait() }()
	hear := func(want string) {
		t.Helper()
		late := time.After(time.Minute)
		for {
			select {
			case got := <-said:
				if got == want {
					return
				}
			case err := <-s.ended:
				t.Fatalf("silk serve ended before %s: %v: %s", want, err, s.log)
			case <-late:
				t.Fatalf("no %s: %s", want, s.log)
			}
		}
	}
	hear("READY=1")
	hear("WATCHDOG=1")
	resp, err := (&http.Client{Timeout: time.Minute}).Get("http://" + port.Addr().String() + "/healthz")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("on the passed port: %v, %v", resp, err)
	} else {
		resp.Body.Close()
	}
	signal(t, cmd.Process.Pid, syscall.SIGTERM)
	hear("STOPPING=1")
	if err := <-s.ended; err != nil {
		t.Errorf("silk serve: %v: %s", err, s.log)
	}
	s.cmd = nil
}

// TestServerIsKilled: what ran ends as an error with its output so far, what waited runs, nothing runs twice.
func TestServerIsKilled(t *testing.T) {
	s := newServer(t, "  running: 1\n")
	s.start()
	running := s.shell("echo before; sleep 100")
	waiting := s.shell("echo later")
	if err := s.frames(running.ID, func(f api.Frame) bool { return f.Type == api.FrameOutput }); err != nil {
		t.Fatal(err)
	}
	_ = s.stop(syscall.SIGKILL)
	s.start()
	if out := s.outcome(running.ID); out.Kind != "error" || out.Reason != "host" || !strings.Contains(out.Message, "host restarted") {
		t.Errorf("the run that was running: %+v", out)
	}
	if text, err := s.try("GET", "/v1/runs/"+running.ID+"/output/stdout", ""); err != nil || string(text) != "before\n" {
		t.Errorf("its output %q, %v", text, err)
	}
	if out := s.outcome(waiting.ID); out.Kind != "ok" {
		t.Errorf("the run that waited: %+v", out)
	}
	s.checkEnds([]string{running.ID, waiting.ID})
}

// TestServerDrains: SIGTERM lets what runs end, and its viewer sees it.
func TestServerDrains(t *testing.T) {
	s := newServer(t, "")
	s.start()
	r := s.shell("echo begun; sleep 1; echo done")
	seen := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		text := ""
		err := s.frames(r.ID, func(f api.Frame) bool {
			if text += f.Data; text == "begun\n" && f.Type == api.FrameOutput {
				close(begun)
			}
			return false
		})
		if err == nil && text != "begun\ndone\n" {
			err = fmt.Errorf("the viewer saw %q", text)
		}
		seen <- err
	}()
	<-begun
	signal(t, s.cmd.Process.Pid, syscall.SIGTERM)
	if err := <-seen; err != nil {
		t.Error(err)
	}
	if err := <-s.ended; err != nil {
		t.Errorf("silk serve: %v: %s", err, s.log)
	}
	s.cmd = nil
	if _, err := os.Stat(filepath.Join(s.Home, "silk.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left: %v", err)
	}
	checkState(t, s.silk)
}

// checkEnds stops the server and looks at what is left: each of the runs has ended, and was started once at most.
func (s *server) checkEnds(runs []string) {
	s.Helper()
	for _, run := range runs {
		if r := decodeAs[api.Run](s, "GET", "/v1/runs/"+run, ""); r.State != api.StateEnded || r.Outcome == nil {
			s.Errorf("run %s: %+v", run, r)
		}
		starts := decodeAs[api.Page[api.AuditEvent]](s, "GET", "/v1/audit?event=sandbox_started&run="+run, "")
		ends := decodeAs[api.Page[api.AuditEvent]](s, "GET", "/v1/audit?event=sandbox_&run="+run, "")
		if n := len(starts.Items); n > 1 {
			s.Errorf("run %s was started %d times", run, n)
		}
		if n := len(ends.Items) - len(starts.Items); n != 1 {
			s.Errorf("run %s has %d ends", run, n)
		}
	}
	if err := s.stop(syscall.SIGTERM); err != nil {
		s.Errorf("silk serve: %v: %s", err, s.log)
	}
	checkState(s.T, s.silk)
	for _, dir := range []string{"streams", "runs"} {
		left, err := os.ReadDir(filepath.Join(s.Home, dir))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			s.Error(err)
		}
		for _, e := range left {
			if dir == "streams" || !strings.HasPrefix(e.Name(), "0") {
				s.Errorf("%s/%s is left", dir, e.Name())
			}
		}
	}
	if left, err := sentriesOf(s.Home); err != nil || len(left) > 0 {
		s.Errorf("sandbox kernels %v are left, %v", left, err)
	}
}

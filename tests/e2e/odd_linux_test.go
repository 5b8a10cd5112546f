package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/testenv"
)

// oddRuns are runs in which users of services of this kind were surprised. What is not said is not looked at.
var oddRuns = []struct {
	name   string
	in     api.RunRequest
	kind   string
	within time.Duration // of the request; 0: a minute
	stdout string        // "" is not looked at
	check  func(out api.Outcome, stdout string) error
}{
	{
		name: "a time-out ends background processes too, and keeps what was printed",
		in:   shellRun("echo before; echo err >&2; sleep 300 & (while :; do date > file; done) & wait; echo never", 1000),
		kind: "timeout", within: 20 * time.Second, stdout: "before\n",
		check: func(out api.Outcome, _ string) error {
			if out.ExitCode != nil || out.Stderr.Bytes != 4 {
				return fmt.Errorf("a time-out has no exit code, and the error output is there: %+v", out)
			}
			return nil
		},
	},
	{
		name: "a process that outlives the program and holds its output does not hold the run",
		in:   shellRun("sleep 300 & echo done", 60_000), kind: "ok", within: 20 * time.Second, stdout: "done\n",
	},
	{
		name: "a program that ignores every signal is ended",
		in:   shellRun("trap '' TERM INT HUP QUIT; echo up; while :; do sleep 0.1; done", 1000), kind: "timeout", within: 20 * time.Second, stdout: "up\n",
	},
	{
		name: "both channels are read at once, and what is cut is counted",
		in:   shellRun("head -c 20000000 /dev/zero & head -c 15000000 /dev/zero >&2; wait", 0), kind: "ok",
		check: func(out api.Outcome, stdout string) error {
			if out.Stdout.Bytes != 20_000_000 || out.Stderr.Bytes != 15_000_000 || !out.Stdout.Truncated || !out.Stderr.Truncated || len(stdout) == 0 || len(stdout) >= 20_000_000 {
				return fmt.Errorf("kept %d bytes, %+v, %+v", len(stdout), out.Stdout, out.Stderr)
			}
			if *out.ExitCode != 0 || out.Signal != 0 || out.Flags["output_truncated"] == 0 {
				return fmt.Errorf("the program has not crashed: %+v", out)
			}
			return nil
		},
	},
	{
		name: "characters come whole, however they are written",
		in:   shellRun(`for b in c a f '\303' '\251' '\342' '\230' '\225' '\344' '\275' '\240' '\345' '\245' '\275'; do printf "$b"; sleep 0.08; done; printf '\303'`, 0),
		kind: "ok", stdout: "café☕你好\xc3",
	},
	{
		name: "names and code need not be ASCII, and the program knows that its text is UTF-8",
		in: api.RunRequest{
			Profile: "lab:text", Args: []string{"sh", "노트 ü.sh", "größe"}, Env: []string{"NOTE=노트"},
			Files: []api.File{{Path: "노트 ü.sh", Text: ptr("echo \"$1 $NOTE 你好\"; ls; case $LANG$LC_ALL in *UTF-8*) echo utf8;; esac")}},
		},
		kind: "ok", stdout: "größe 노트 你好\n노트 ü.sh\nutf8\n",
	},
	{name: "who gives no input gives its end", in: shellRun("cat; read x || echo nothing", 30_000), kind: "ok", within: 20 * time.Second, stdout: "nothing\n"},
	{
		name: "input is bytes, with the ends of documents in it",
		in:   api.RunRequest{Profile: "lab:text", Args: []string{"sh"}, Stdin: ptr("cat <<'EOF'\na $b\nEOF\ncat <<EOT\nEOF\nEOT\necho end")},
		kind: "ok", stdout: "a $b\nEOF\nend\n",
	},
	{name: "a command that is not there says so", in: api.RunRequest{Profile: "lab:text", Args: []string{"no-such-command"}}, kind: "failed", check: func(out api.Outcome, _ string) error {
		if out.ExitCode == nil || *out.ExitCode != 127 {
			return fmt.Errorf("%+v", out)
		}
		return nil
	}},
	{name: "a signal is no exit code", in: shellRun("kill -SEGV $$", 0), kind: "failed", check: func(out api.Outcome, _ string) error {
		if out.ExitCode != nil || out.Signal != int(syscall.SIGSEGV) {
			return fmt.Errorf("%+v", out)
		}
		return nil
	}},
}

func ptr[T any](v T) *T { return &v }

// shellRun is a shell script with a time limit in milliseconds; 0: the profile's.
func shellRun(script string, limitMs int64) api.RunRequest {
	return api.RunRequest{Profile: "lab:text", Args: []string{"sh", "-c", script}, Limits: api.Limits{TimeoutMs: limitMs}}
}

// TestServiceOddRuns runs them all at once, each with a viewer whose connection is cut again and again.
func TestServiceOddRuns(t *testing.T) {
	testenv.NoLeaks(t)
	s := newServer(t, "  running: 4\n  ready: 0\n  token_queued: 100\n")
	s.start()
	var all sync.WaitGroup
	for i, odd := range oddRuns {
		body, err := json.Marshal(odd.in)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		r := decodeAs[api.Run](s, "POST", "/v1/runs", string(body))
		v := newViewer(s, r.ID, uint64(i), func() int64 { return 0 })
		all.Go(func() {
			v.watch()
			took := time.Since(began)
			if limit := odd.within; limit > 0 && took > limit {
				t.Errorf("%s: it took %v", odd.name, took)
			}
			got := v.exit
			if got == nil || got.Kind != odd.kind {
				t.Errorf("%s: %+v, %v", odd.name, got, v.problems)
				return
			}
			for _, err := range v.problems {
				t.Errorf("%s: %v", odd.name, err)
			}
			text, err := s.try("GET", "/v1/runs/"+r.ID+"/output/stdout", "")
			if err != nil || odd.stdout != "" && string(text) != odd.stdout {
				t.Errorf("%s: stdout %.200q, %v", odd.name, text, err)
			}
			saw := v.channels["stdout"]
			for _, err := range saw.compare("stdout", text, got.Stdout, false) {
				t.Errorf("%s: %v", odd.name, err)
			}
			if odd.check != nil {
				if err := odd.check(*got, string(text)); err != nil {
					t.Errorf("%s: %v", odd.name, err)
				}
			}
		})
	}
	all.Wait()
	if left, err := sentriesOf(s.Home); err != nil || len(left) > 0 {
		t.Errorf("when all runs have ended, sandbox kernels %v are left, %v", left, err)
	}
	if err := s.stop(syscall.SIGTERM); err != nil {
		t.Errorf("silk serve: %v: %s", err, s.log)
	}
	checkState(t, s.silk)
}

// TestServiceLines: 30,000 lines through a connection that is cut at least five times, each once and in order.
func TestServiceLines(t *testing.T) {
	s := newServer(t, "")
	s.start()
	r := s.shell("i=0; while [ $i -lt 60 ]; do seq $((i*500+1)) $((i*500+500)); sleep 0.02; i=$((i+1)); done")
	v := newViewer(s, r.ID, 1, func() int64 { return 0 })
	v.most = 200
	v.watch()
	var want bytes.Buffer
	for i := range 30_000 {
		fmt.Fprintln(&want, i+1)
	}
	c := v.channels["stdout"]
	if len(v.problems) > 0 || len(c.gaps) > 0 || v.cuts < 6 || !bytes.Equal(c.data, want.Bytes()) {
		t.Errorf("%d bytes, want %d; %d connections, gaps %v, %v", len(c.data), want.Len(), v.cuts, c.gaps, v.problems)
	}
}

// TestServiceManyAtOnce: 50 starts at once, none of which fails or gets what another one has.
func TestServiceManyAtOnce(t *testing.T) {
	s := newServer(t, "  running: 50\n  token_running: 50\n  token_queued: 100\n")
	s.start()
	runs := make([]api.Run, 50)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() { runs[i] = s.shell(fmt.Sprintf("echo %d > file; sleep 0.1; cat file", i)) })
	}
	all.Wait()
	for i, r := range runs {
		if out := s.outcome(r.ID); out.Kind != "ok" {
			t.Errorf("run %d: %+v", i, out)
		}
		if text, err := s.try("GET", "/v1/runs/"+r.ID+"/output/stdout", ""); err != nil || string(text) != fmt.Sprintln(i) {
			t.Errorf("run %d printed %q, %v", i, text, err)
		}
	}
}

// TestServiceCancel: a cancelation ends a program that does not want to, soon and with all that it started.
func TestServiceCancel(t *testing.T) {
	s := newServer(t, "  ready: 0\n")
	s.start()
	r := s.shell("trap '' TERM INT HUP; (trap '' TERM; while :; do sleep 0.1; done) & echo up; while :; do sleep 0.1; done")
	if err := s.frames(r.ID, func(f api.Frame) bool { return f.Type == api.FrameOutput }); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if _, err := s.try("POST", "/v1/runs/"+r.ID+"/cancel", ""); err != nil {
		t.Fatal(err)
	}
	if out := s.outcome(r.ID); out.Kind != "canceled" || time.Since(began) > 15*time.Second {
		t.Errorf("after %v: %+v", time.Since(began), out)
	}
	if left, err := sentriesOf(s.Home); err != nil || len(left) > 0 {
		t.Errorf("sandbox kernels %v are left, %v", left, err)
	}
}

// TestServiceClientWithoutServer: a client whose server is killed says nothing of success; it hears the end from the next one. The
// runs of another server go on.
func TestServiceClientWithoutServer(t *testing.T) {
	s, other := newServer(t, ""), newServer(t, "")
	s.start()
	other.start()
	elsewhere := other.shell("echo up; sleep 3; echo end")
	cmd := s.Command(t.Context(), "--server", "unix://"+filepath.Join(s.Home, "silk.sock"), "run", "-p", "lab:text", "--", "sh", "-c", "echo up; sleep 100")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 3)
	if _, err := out.Read(line); err != nil || string(line) != "up\n" {
		t.Fatalf("%q, %v: %s", line, err, stderr.String())
	}
	_ = s.stop(syscall.SIGKILL)
	s.start()
	if err := unlessExit(cmd.Wait()); err != nil || cmd.ProcessState.ExitCode() != 125 || !strings.Contains(stderr.String(), "host restarted") {
		t.Errorf("exit status %d, %v: %s", cmd.ProcessState.ExitCode(), err, stderr.String())
	}
	if out := other.outcome(elsewhere.ID); out.Kind != "ok" {
		t.Errorf("the run of another server: %+v", out)
	}
}

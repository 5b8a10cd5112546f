package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
)

// inContainers is a silk that knows the engine of the tests.
func inContainers(t *testing.T, images ...string) silk {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.Docker, testenv.BPF, testenv.Landlock)
	s := newSilk(t, images...)
	s.Env = append(s.Env, "DOCKER_HOST="+testenv.DockerHost())
	return s
}

// TestContainers: programs of each language end in a container of a Docker Engine as they do elsewhere, and as many ways.
func TestContainers(t *testing.T) {
	s := inContainers(t, "lab:text", "lab:python", "lab:node")
	testenv.NoLeaks(t)
	for _, test := range []struct {
		name, outcome, stdout, rule string
		status                      int
		args                        []string
	}{
		{"a shell", "ok", "text 3\n", "", 0, []string{"-p", "lab:text", "-c", "echo text $((1+2))"}},
		{"Python with its libraries", "ok", "10\n", "", 0, []string{"-p", "lab:python", "-c", "import numpy; print(numpy.arange(5).sum())"}},
		{"TypeScript", "ok", "7\n", "", 0, []string{"-p", "lab:node", "--lang", "ts", "-c", "const n: number = 7; console.log(n)"}},
		{"a program that fails", "failed", "", "", 3, []string{"-p", "lab:text", "-c", "exit 3"}},
		{"a command that does not exist", "failed", "", "", 127, []string{"-p", "lab:text", "--", "no-such-command"}},
		{"a forbidden file", "violated", "before\n", "file.accounts", 159, []string{"-p", "lab:text", "-c", "echo before; cat /etc/passwd; echo after"}},
		{"a socket", "violated", "", "network.inet", 159, []string{"-p", "lab:python", "-c", "import socket; socket.socket()"}},
		{"a mount", "violated", "", "privilege.mount", 159, []string{"-p", "lab:python", "-c", "import ctypes; ctypes.CDLL(None).mount(b'a', b'/tmp', b'tmpfs', 0, None); print('went on')"}},
		{"too much memory", "oom", "", "", 137, []string{"-p", "lab:python", "--memory", "100MiB", "-c", "x = bytearray(400 << 20); print(len(x))"}},
		{"too long", "timeout", "begun\n", "", 124, []string{"-p", "lab:text", "--timeout", "2s", "-c", "echo begun; sleep 1000 & while :; do :; done"}},
		{"one process only", "ok", "thread\nno process\n", "", 0, []string{"-p", "lab:python", "--no-spawn", "-c", "import os, threading\nt = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\ntry: os.fork()\nexcept OSError: print('no process')"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := s.run(t.Context(), 2*time.Minute, append([]string{"--driver", "docker"}, test.args...)...)
			if err != nil {
				t.Fatal(err)
			}
			o := got.outcome
			if string(o.Kind) != test.outcome || got.status != test.status || o.Rule != test.rule || o.Driver != "docker" {
				t.Errorf("outcome %s (%s), rule %q, driver %q, status %d, want %s, %q, %d", o.Kind, o.Message, o.Rule, o.Driver, got.status, test.outcome, test.rule, test.status)
			}
			if o.Stdout.Text == nil || *o.Stdout.Text != test.stdout {
				t.Errorf("stdout %+v, want %q", o.Stdout, test.stdout)
			}
		})
	}
}

// TestSilkOfAContainerIsKilled: the command is killed as the kernel kills, and its container is dead within a second and removed.
func TestSilkOfAContainerIsKilled(t *testing.T) {
	s := inContainers(t, "lab:text")
	if _, err := s.run(t.Context(), 2*time.Minute, "--driver", "docker", "-p", "lab:text", "-c", "true"); err != nil { // the image is there
		t.Fatal(err)
	}
	cmd := s.Command(context.Background(), "run", "--driver", "docker", "-p", "lab:text", "-c", "echo $$ up; while :; do sleep 0.1; done")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if line, err := bufio.NewReader(r).ReadString('\n'); !strings.HasSuffix(line, " up\n") {
		t.Fatalf("it says %q, %v", line, err)
	}
	if n := containersOf(t, cmd.Process.Pid); n != 1 {
		t.Fatalf("%d containers, want one", n)
	}
	killed := time.Now()
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for containersOf(t, cmd.Process.Pid) > 0 {
		if time.Since(killed) > 20*time.Second {
			t.Fatal("the container is left")
		}
	}
	if _, err := s.run(t.Context(), 2*time.Minute, "--driver", "docker", "-p", "lab:text", "-c", "true"); err != nil { // sweeps
		t.Fatal(err)
	}
	left, err := os.ReadDir("/run/silk/docker")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		if strings.Contains(e.Name(), fmt.Sprintf("-%d-", cmd.Process.Pid)) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

// containersOf counts what the engine has of a silk. Other tests use the engine too.
func containersOf(t *testing.T, pid int) (n int) {
	t.Helper()
	var dialer net.Dialer
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return dialer.DialContext(ctx, "unix", strings.TrimPrefix(testenv.DockerHost(), "unix://"))
	}}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://docker/containers/json?all=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var list []struct{ Labels map[string]string }
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if strings.Contains(c.Labels["silk.owner"], fmt.Sprintf("-%d-", pid)) {
			n++
		}
	}
	return n
}

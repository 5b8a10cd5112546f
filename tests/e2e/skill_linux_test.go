package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// skillKey is the key of examples/skills, which everybody knows.
const skillKey = "SILK_SKILL_KEY=0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"

// skillAnswer is what `silk skill run --json` prints.
type skillAnswer struct {
	Success        bool
	ExitCode       int
	Stdout, Stderr string
	DurationMs     int64
	Output         json.RawMessage
	OutputError    string
	Outcome        struct {
		Outcome, Rule, Syscall, Driver, Run string
		Refused                             map[string]int64
	}
}

// publish makes a skill of a program, signs and registers it.
func publish(t *testing.T, s silk, name, file, program string, flags ...string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := put(filepath.Join(dir, file), program); err != nil {
		t.Fatal(err)
	}
	verb(t, s, 0, append([]string{"skill", "init", dir, "--name", name, "--publisher", "Ann", "--contact", "ann@example.org", "--timeout-ms", "60000"}, flags...)...) // a busy machine is no fault of a skill's
	verb(t, s, 0, "skill", "sign", dir)
	verb(t, s, 0, "skill", "register", dir)
}

func runSkill(t *testing.T, s silk, status int, args ...string) skillAnswer {
	t.Helper()
	out, stderr := verb(t, s, status, append([]string{"skill", "run", "--json"}, args...)...)
	var a skillAnswer
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		t.Fatalf("%v: %s; stderr: %s", err, out, stderr)
	}
	if a.ExitCode != status && a.OutputError == "" {
		t.Errorf("exitCode %d, and silk exits with %d", a.ExitCode, status)
	}
	return a
}

// TestSkillExamples: the two examples do the same, and leave the published events.
func TestSkillExamples(t *testing.T) { testSkillExamples(t) }

func testSkillExamples(t *testing.T, flags ...string) {
	s := newSilk(t, "lab:node", "lab:python")
	var outputs []string
	for _, name := range []string{"totals-node", "totals-python"} {
		verb(t, s, 0, "skill", "register", "../../examples/skills/"+name)
		a := runSkill(t, s, 0, append([]string{name, "--json-output"}, flags...)...)
		if !a.Success || a.ExitCode != 0 || a.Outcome.Outcome != "ok" || a.DurationMs <= 0 || string(a.Output)+"\n" != a.Stdout {
			t.Errorf("%s: %+v", name, a)
		}
		outputs = append(outputs, a.Stdout)
	}
	if outputs[0] != outputs[1] || !strings.Contains(outputs[0], `"USDC":"-50.000001"`) {
		t.Errorf("the results are not the same: %q", outputs)
	}
	events, _ := verb(t, s, 0, "audit", "ls", "--event", "sandbox_", "--json")
	for _, want := range []string{`"skillName":"totals-node"`, `"networkMode":"none"`, `"memoryMb":128`, `"exitCode":0`} {
		if !strings.Contains(strings.ReplaceAll(events, " ", ""), want) {
			t.Errorf("no %s in %s", want, events)
		}
	}
}

func TestSkillEnds(t *testing.T) {
	s := newSilk(t, "lab:node", "lab:python")
	s.Env = append(s.Env, skillKey)
	const spawn = "import os\np = getattr(os, 'fo' + 'rk')()\nif p == 0: os._exit(0)\nos.waitpid(p, 0)\nprint('spawned')"
	for _, tt := range []struct {
		name, file, program string
		flags, args         []string
		status              int
		outcome, rule       string
		stdout              string
		refused             string
	}{
		{name: "ok", file: "a.py", program: "import os, sys\nprint(os.environ['ISCL_SKILL_NAME'], sys.argv, os.getcwd())", args: []string{"--", "x", "-y"}, outcome: "ok", stdout: "ok ['/workspace/a.py', 'x', '-y'] /workspace\n"},
		{name: "fails", file: "a.mjs", program: "console.error('no'); process.exit(3)", status: 3, outcome: "failed"},
		{name: "typescript", file: "a.ts", program: "const n: number = 1; console.log(n)", outcome: "ok", stdout: "1\n"},
		{name: "signal", file: "a.py", program: "import os\nos.kill(os.getpid(), 15)", status: 143, outcome: "failed"},
		{name: "not-oom", file: "a.js", program: "process.exit(137)", status: 137, outcome: "failed"},
		{name: "timeout", file: "a.py", program: "import time\nprint('begin', flush=True)\ntime.sleep(60)", flags: []string{"--timeout-ms", "1000"}, status: 137, outcome: "timeout", stdout: "begin\n"},
		{name: "oom", file: "a.py", program: "print(len(bytearray(200 << 20)))", flags: []string{"--memory-mb", "64"}, status: 137, outcome: "oom"},
		{name: "tmp-is-memory", file: "a.py", program: "open('/tmp/x', 'wb').write(bytes(60 << 20))\nprint('wrote')", flags: []string{"--memory-mb", "40"}, status: 137, outcome: "oom"},
		{name: "no-spawn", file: "a.py", program: spawn, status: 1, outcome: "failed", refused: "process.spawn"},
		{name: "spawn", file: "a.py", program: spawn, flags: []string{"--allow-spawn"}, outcome: "ok", stdout: "spawned\n"},
		{name: "threads", file: "a.py", program: "import threading\nt = threading.Thread(target=print, args=('thread',))\nt.start(); t.join()", outcome: "ok", stdout: "thread\n"},
		{name: "workers", file: "a.mjs", program: "import { Worker } from 'node:worker_threads'\nnew Worker('console.log(1)', { eval: true })", outcome: "ok", stdout: "1\n"},
		{name: "accounts", file: "a.py", program: "open('/etc/passwd').read()\nprint('read')", status: 159, outcome: "violated", rule: "file.accounts"},
		{
			name: "socket", file: "a.py", program: "import importlib\nimportlib.import_module(''.join(['sock', 'et'])).socket()\nprint('made')", status: 159, outcome: "violated", rule: "network.inet",
		},
		{name: "writes", file: "a.py", program: `
import os
for p in ['/workspace/a.py', '/workspace/x', '/dev/shm/x', '/x', '/etc/x', '/dev/x', '/tmp/x']:
    try:
        open(p, 'w').close()
        print(p)
    except OSError: pass
for f in [lambda: os.remove('/workspace/a.py'), lambda: os.chmod('/workspace/a.py', 0o777), lambda: os.utime('/workspace/a.py'), lambda: os.truncate('/workspace/a.py', 0), lambda: os.setxattr('/workspace/a.py', 'user.x', b'y'), lambda: os.mkdir('/workspace/d'), lambda: os.rename('/workspace/a.py', '/tmp/a')]:
    try:
        f()
        print('changed')
    except OSError: pass
`, outcome: "ok", stdout: "/tmp/x\n"},
		{name: "json", file: "a.js", program: "console.log('no json')", args: []string{"--json-output"}, status: 1, outcome: "ok", stdout: "no json\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			publish(t, s, tt.name, tt.file, tt.program, tt.flags...)
			a := runSkill(t, s, tt.status, append([]string{tt.name}, tt.args...)...)
			if a.Outcome.Outcome != tt.outcome || a.Outcome.Rule != tt.rule || a.Stdout != tt.stdout || a.Success != (tt.status == 0) {
				t.Errorf("%+v", a)
			}
			if tt.refused != "" && a.Outcome.Refused[tt.refused] == 0 {
				t.Errorf("refused %v, want %s", a.Outcome.Refused, tt.refused)
			}
			if (a.OutputError != "") != slices.Contains(tt.args, "--json-output") {
				t.Errorf("output error %q", a.OutputError)
			}
		})
	}
}

// TestSkillService: with networkAccess the one service is reached, by its URL in the variable, and nothing else, on no port of this host.
func TestSkillService(t *testing.T) {
	t.Run("gvisor", func(t *testing.T) { checkSkillService(t, newSilk(t, "lab:python"), "gvisor") })
	t.Run("docker", func(t *testing.T) { checkSkillService(t, inContainers(t, "lab:python"), "docker") })
}

func checkSkillService(t *testing.T, s silk, driver string) {
	s.Env = append(s.Env, skillKey)
	var asked, missed atomic.Int32
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if _, err := w.Write([]byte(r.URL.Path)); err != nil {
			t.Error(err)
		}
	}))
	defer service.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { missed.Add(1) }))
	defer other.Close()
	ask := "import os, importlib, sys\nask = importlib.import_module('.'.join(['urllib', 'request'])).urlopen\n" +
		"print(ask(os.environ['ISCL_API_URL'] + '/v1/x' if len(sys.argv) < 2 else sys.argv[1]).read().decode())"
	publish(t, s, "with", "a.py", ask, "--network-access")
	publish(t, s, "without", "a.py", ask)

	if a := runSkill(t, s, 0, "with", "--driver", driver, "--api-url", service.URL); a.Stdout != "/v1/x\n" || asked.Load() != 1 {
		t.Errorf("asked %d times: %+v", asked.Load(), a)
	}
	if a := runSkill(t, s, 159, "without", "--driver", driver, "--api-url", service.URL); a.Outcome.Rule != "network.inet" || asked.Load() != 1 {
		t.Errorf("asked %d times: %+v", asked.Load(), a)
	}
	for _, url := range []string{strings.Replace(other.URL, "127.0.0.1", "service.silk.internal", 1), "http://192.0.2.1/", "http://example.org/"} {
		a := runSkill(t, s, 159, "with", "--driver", driver, "--api-url", service.URL, "--", url)
		if !strings.HasPrefix(a.Outcome.Rule, "egress.") || missed.Load() != 0 || asked.Load() != 1 {
			t.Errorf("%s: asked %d times, others %d: %+v", url, asked.Load(), missed.Load(), a)
		}
	}
	if a := runSkill(t, s, 1, "with", "--driver", driver); !strings.Contains(a.Stderr, "ISCL_API_URL") {
		t.Errorf("without a service: %+v", a)
	}
}

// TestSkillSelftest: what people run to see that skills are kept.
func TestSkillSelftest(t *testing.T) {
	t.Run("gvisor", func(t *testing.T) { checkSkillSelftest(t, newSilk(t, "lab:python"), "gvisor") })
	t.Run("docker", func(t *testing.T) { checkSkillSelftest(t, inContainers(t, "lab:python"), "docker") })
}

func checkSkillSelftest(t *testing.T, s silk, driver string) {
	out, stderr := verb(t, s, 0, "skill", "selftest", "--driver", driver, "--json")
	var report struct {
		Drivers []string
		Tests   []struct {
			Name      string
			Published bool
			On        map[string]struct {
				Verdict  string
				Problems []string
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("%v; stderr: %s", err, stderr)
	}
	published := 0
	for _, test := range report.Tests {
		if test.Published {
			published++
		}
		for _, driver := range report.Drivers {
			if on := test.On[driver]; on.Verdict != "holds" {
				t.Errorf("%s on %s: %+v", test.Name, driver, on)
			}
		}
	}
	if published != 5 || len(report.Tests) < 15 || len(report.Drivers) != 1 {
		t.Errorf("%d of %d tests are published ones, on %q", published, len(report.Tests), report.Drivers)
	}
}

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/replay"
)

// examples are programs that ask for the time, for random numbers, for addresses, and for the order of things that have none.
var examples = []struct{ name, profile, code string }{
	{"a shell's time", "lab:text", "date +%s.%N; sleep 0.1; date +%s.%N; echo $SECONDS"},
	{"a shell's random numbers", "lab:text", "echo $RANDOM $RANDOM $$; cat /proc/sys/kernel/random/uuid; od -An -N16 -tx1 /dev/urandom"},
	{"temporary names", "lab:text", "mktemp -u; mktemp -d; ls -l --time-style=full-iso /tmp"},
	{"a shuffle", "lab:text", "seq 100 | shuf | head -5; sort -R /etc/services 2>/dev/null | head -3"},
	{"awk", "lab:text", "awk 'BEGIN { srand(); print rand(), srand(), systime() }'"},
	{"times of files", "lab:text", "touch a b; sleep 0.05; touch c; stat -c '%n %y %i' a b c; tar -cf all.tar a b c; gzip -k all.tar; sha256sum all.tar.gz"},
	{"a database", "lab:text", "sqlite3 :memory: \"select random(), strftime('%Y-%m-%d %H:%M:%f')\""},
	{"processes", "lab:text", "for i in 1 2 3; do sh -c 'echo $$ $PPID'; done; time true; times"},
	{"Python's time", "lab:python", "import time, datetime\nt = time.time()\nprint(t, time.monotonic(), time.process_time(), datetime.datetime.now())\ntime.sleep(0.1)\nprint(time.time() - t)"},
	{"Python's random numbers", "lab:python", "import random, secrets, uuid, os\nprint(random.random(), secrets.token_hex(8), uuid.uuid4(), os.urandom(4))"},
	{"Python's order", "lab:python", "print({'a', 'b', 'c', 'd'}, hash('x'), id(object()), {object() for _ in range(3)})"},
	{"a busy wait", "lab:python", "import time\nend = time.perf_counter() + 0.01\nn = 0\nwhile time.perf_counter() < end: n += 1\nprint(n)"},
	{"numpy", "lab:python", "import numpy as np\nprint(np.random.rand(4), np.random.default_rng().normal(size=3))\nprint(np.linalg.svd(np.random.rand(20, 20))[1])"},
	{"a picture", "lab:python", "import numpy as np, matplotlib.pyplot as plt\nplt.hist(np.random.rand(200))\nplt.title('x')\nplt.savefig('a.png')\nplt.savefig('a.svg')"},
	{"pandas", "lab:python", "import pandas as pd\nprint(pd.Timestamp.now(), pd.DataFrame({'a': range(9)}).sample(3))"},
	{"asyncio", "lab:python", "import asyncio, time\nasync def f(i):\n    await asyncio.sleep(i / 100)\n    print(i, time.time())\nasync def main():\n    await asyncio.gather(*(f(i) for i in range(5)))\nasyncio.run(main())"},
	{"a child", "lab:python", "import subprocess, time\nprint(subprocess.run(['date', '+%N'], capture_output=True).stdout, time.time())"},
	{"a failure", "lab:python", "import random, tempfile\nprint(tempfile.mkdtemp())\nraise ValueError(random.random())"},
	{"Node's random numbers", "lab:node", "console.log(Math.random(), require('crypto').randomUUID(), require('crypto').randomBytes(4).toString('hex'))"},
	{"Node's time of day", "lab:node", "console.log(Date.now(), new Date().toISOString()); setTimeout(() => console.log(new Date().toISOString()), 50)"},
}

// TestDeterministicRunsReplay: twenty programs, no two runs of which are ever the same, come out the same byte for byte.
func TestDeterministicRunsReplay(t *testing.T) {
	testenv.Require(t, testenv.Silk)
	s := newSilk(t, "lab:text", "lab:python", "lab:node")
	for _, e := range examples {
		t.Run(e.name, func(t *testing.T) {
			got, err := s.run(t.Context(), time.Minute, "-p", e.profile, "--deterministic", "-c", e.code)
			if err != nil {
				t.Fatal(err)
			}
			if kind := got.outcome.Kind; kind != "ok" && (kind != "failed" || e.name != "a failure") {
				t.Fatalf("outcome %s: %+v", kind, got)
			}
			rep := s.replay(t, 0, got.outcome.Run)
			if !rep.Same || !rep.Deterministic || len(rep.Notes) > 0 {
				t.Errorf("%+v", rep)
			}
		})
	}
}

// replay replays a run and wants silk to exit so.
func (s silk) replay(t *testing.T, status int, args ...string) (rep replay.Report) {
	t.Helper()
	end, err := s.Run(t.Context(), 5*time.Minute, &rep, append([]string{"record", "replay", "--json"}, args...)...)
	if err != nil || end.Status != status {
		t.Fatalf("replay %q: status %d, want %d, %v: %+v", args, end.Status, status, err, rep)
	}
	return rep
}

// TestReplaysAreExplained: what is not deterministic comes out otherwise, and it is said why.
func TestReplaysAreExplained(t *testing.T) {
	testenv.Require(t, testenv.Silk)
	s := newSilk(t, "lab:text")
	for _, test := range []struct{ name, code, what, reason string }{
		{"time", "date +%s.%N", "stdout", replay.ReasonTime},
		{"a file's time", "echo x > a; stat -c %y a > b", "artifact b", replay.ReasonTime},
		{"randomness", "od -An -N8 -tx1 /dev/urandom", "stdout", replay.ReasonRandomness},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := s.run(t.Context(), time.Minute, "-p", "lab:text", "-c", test.code)
			if err != nil || got.outcome.Kind != "ok" {
				t.Fatalf("%v: %+v", err, got)
			}
			rep := s.replay(t, 1, got.outcome.Run)
			if len(rep.Differences) != 1 || rep.Differences[0].What != test.what || len(rep.Trials) != len(replay.Trials()) {
				t.Fatalf("%+v", rep)
			}
			if rs := rep.Differences[0].Reasons; len(rs) != 1 || rs[0].Kind != test.reason {
				t.Errorf("reasons %+v, want %s", rs, test.reason)
			}
		})
	}
}

// TestReplayElsewhere: a run with a directory, an input and arguments goes into a file, and comes out the same under another state
// directory, where nothing but the image and the public key is known of it.
func TestReplayElsewhere(t *testing.T) {
	testenv.Require(t, testenv.Silk)
	here, there := newSilk(t, "lab:text"), newSilk(t, "lab:text")
	dir := t.TempDir()
	src, artifacts, bundle, key := filepath.Join(dir, "src"), filepath.Join(dir, "out"), filepath.Join(dir, "run.silk"), filepath.Join(dir, "silk.pub")
	for name, text := range map[string]string{"run.sh": "cat; ls -la --time-style=full-iso; cat sub/b; echo \"$@\" > made", "sub/b": "b\n", "a": "a\n"} {
		path := filepath.Join(src, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := put(path, text); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("a", filepath.Join(src, "link")); err != nil {
		t.Fatal(err)
	}
	stdin := filepath.Join(dir, "stdin")
	if err := put(stdin, strings.Repeat("input\n", 20_000)); err != nil { // more than the database takes
		t.Fatal(err)
	}
	got, err := here.run(t.Context(), time.Minute, "-p", "lab:text", "--deterministic", "--dir", src, "--stdin", stdin, "--artifacts", artifacts, filepath.Join(src, "run.sh"), "--", "x", "y z")
	if err != nil || got.outcome.Kind != "ok" {
		t.Fatalf("%v: %+v", err, got)
	}
	public, err := here.Command(t.Context(), "record", "key").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := put(key, string(public)); err != nil {
		t.Fatal(err)
	}
	if out, err := here.Command(t.Context(), "record", "export", got.outcome.Run, "-o", bundle, "--artifacts", artifacts).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.RemoveAll(src); err != nil {
		t.Fatal(err)
	}
	rep := there.replay(t, 0, bundle, "--key", key)
	if want := []string{"outcome", "stdout", "stderr", "artifact made"}; !rep.Same || !slices.Equal(rep.Matched, want) {
		t.Errorf("%+v", rep)
	}
	text, err := os.ReadFile(bundle)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(bundle, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := there.Command(t.Context(), "record", "replay", bundle, "--key", key).CombinedOutput(); err == nil || !strings.Contains(string(out), fmt.Sprint(bundle, ":")) {
		t.Errorf("a file that was changed is replayed: %v %s", err, out)
	}
}

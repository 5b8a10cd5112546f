package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/store"
)

// chaosRuns is how many runs TestServerChaos asks for: SILK_TEST_CHAOS, to repeat a failure with SILK_TEST_CHAOS_SEED.
func chaosRuns() int { return number("SILK_TEST_CHAOS", 40) }

func number(env string, other int) int {
	if n, err := strconv.Atoi(os.Getenv(env)); err == nil {
		return n
	}
	return other
}

// word begins every program: something that no second execution of it would print.
const word = `w=$(od -An -N12 -tx1 /dev/urandom | tr -d " \n"); echo "word $w"; `

// chaosPrograms are busy in different ways. middle is what stands between the word and the end, if that is known.
var chaosPrograms = []struct {
	script, kind string
	timeout      time.Duration
	middle       func() string
}{
	{word + `echo "end $w"`, "ok", 0, func() string { return "" }},
	{word + `for i in 1 2 3 4 5; do echo "tick $i"; sleep 0.2; done; echo "end $w"`, "ok", 0, func() string { return "tick 1\ntick 2\ntick 3\ntick 4\ntick 5\n" }},
	{word + `seq 1 20000; seq 1 20000 >&2; echo "end $w"`, "ok", 0, numbers},
	{word + `echo "end $w"; exit 3`, "failed", 0, func() string { return "" }},
	{word + `head -c 200000 /dev/urandom; echo "end $w"`, "ok", 0, nil},
	{word + `for b in '\303' '\251' '\342' '\230' '\225' '\344' '\275' '\240' '\n'; do printf "$b"; sleep 0.03; done; echo "end $w"`, "ok", 0, func() string { return "é☕你\n" }},
	{word + `sleep 0.2; cat /etc/shadow`, "violated", 0, nil},
	{word + `sleep 100`, "timeout", time.Second, nil},
}

func numbers() string {
	var b strings.Builder
	for i := range 20000 {
		fmt.Fprintln(&b, i+1)
	}
	return b.String()
}

// chaosRun is one run that was accepted, and what its viewer saw.
type chaosRun struct {
	id      string
	program int
	viewer  *viewer
	full    int64 // chaos.full when it was accepted
}

// chaos is what goes wrong around a server, and what was noticed.
type chaos struct {
	*server
	stop chan struct{}
	full atomic.Int64 // how often the disk got full or free: odd while it is full

	mu       sync.Mutex
	runs     []*chaosRun
	counts   map[string]int
	answered map[string]int // by what a refused request was told
}

func (c *chaos) count(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what]++
}

// TestServerChaos asks for runs while the server, sandboxes and viewers are killed, the disk is full and the database locked.
// Each that was accepted ends once, with one record, and none is started twice; no viewer sees a byte twice or misses one
// without being told, or sees an end that the record does not have; and nothing is left.
func TestServerChaos(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Silk, testenv.Sentry)
	testenv.NoLeaks(t)
	c := &chaos{
		server: newServerIn(t, testenv.SmallDisk(t, "256m"), "  running: 4\n  token_queued: 1000\n"),
		stop:   make(chan struct{}), counts: map[string]int{}, answered: map[string]int{},
	}
	seed := uint64(number("SILK_TEST_CHAOS_SEED", rand.IntN(1_000_000)))
	t.Logf("seed %d", seed)
	c.start()
	var actors, clients, viewers sync.WaitGroup
	for i, act := range []func(*rand.Rand){c.killServer, c.killSandboxes, c.fillDisk, c.lockDatabase} {
		actors.Go(func() { act(rand.New(rand.NewPCG(seed, uint64(i)))) })
	}
	todo := make(chan int)
	for i := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(100+i)))
		clients.Go(func() {
			for n := range todo {
				c.ask(n, random, &viewers)
			}
		})
	}
	for n := range chaosRuns() {
		todo <- n
	}
	close(todo)
	clients.Wait()
	close(c.stop)
	actors.Wait()
	seen := make(chan struct{})
	go func() { defer close(seen); viewers.Wait() }()
	select {
	case <-seen:
	case <-time.After(3 * time.Minute):
		t.Errorf("not every viewer has seen an end: %s", short(c.log.String()))
		for _, r := range c.runs {
			r.viewer.leave()
		}
		<-seen
	}
	c.heard()
	c.check()
	for _, what := range slices.Sorted(maps.Keys(c.counts)) {
		t.Logf("%d %s", c.counts[what], what)
	}
	t.Logf("answers: %v", c.answered)
}

// pause waits a random time, and says whether to go on.
func (c *chaos) pause(random *rand.Rand, least, most time.Duration) bool {
	select {
	case <-c.stop:
		return false
	case <-time.After(least + time.Duration(random.Int64N(int64(most-least)))):
		return true
	}
}

// mayStop is why a server may not start: words that tell its owner what to do.
var mayStop = regexp.MustCompile("no space left on device|free disk space|is the disk full|another process holds it")

// killServer kills the server again and again, and starts it as a service manager does: until it stays.
func (c *chaos) killServer(random *rand.Rand) {
	for c.pause(random, 500*time.Millisecond, 3*time.Second) {
		select {
		case err := <-c.ended:
			c.Errorf("silk serve ended by itself: %v: %s", err, short(c.log.String()))
			c.cmd = nil
		default:
			_ = c.server.stop(syscall.SIGKILL)
			c.count("servers killed")
			c.heard()
		}
		for began := time.Now(); ; {
			err := c.tryStart()
			if err == nil {
				break
			}
			c.count("servers that did not start")
			c.heard()
			if !mayStop.MatchString(err.Error()) || time.Since(began) > time.Minute {
				c.Errorf("silk serve does not start: %v", err)
				return
			}
		}
	}
}

// heard counts what the last server has said went wrong, for who reads the test's log.
func (c *chaos) heard() {
	for line := range strings.Lines(c.log.String()) {
		var said struct{ Level, Msg, Error string }
		if json.Unmarshal([]byte(line), &said) != nil {
			said.Level, said.Msg = "ERROR", line // its last words
		}
		if said.Level == "ERROR" || said.Level == "WARN" {
			c.count(said.Level + " " + ids.ReplaceAllString(said.Msg, "RUN"))
		}
	}
}

var ids = regexp.MustCompile("[0-9A-HJKMNP-TV-Z]{26}")

func (c *chaos) killSandboxes(random *rand.Rand) {
	for c.pause(random, 100*time.Millisecond, 500*time.Millisecond) {
		all, err := sentriesOf(c.Home)
		if err != nil {
			c.Error(err)
		}
		pids := kernels(all)
		if len(pids) > 0 {
			_ = syscall.Kill(pids[random.IntN(len(pids))], syscall.SIGKILL) // it may be gone
			c.count("sandboxes killed")
		}
	}
}

// kernels leaves out the processes that a sandbox kernel has its programs run in: without one, a program ends by a signal, and
// the sandbox goes on.
func kernels(pids []int) (roots []int) {
	for _, pid := range pids {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(status), "PPid:\t")
		parent, _, _ := strings.Cut(rest, "\n")
		if n, err := strconv.Atoi(parent); err == nil && !slices.Contains(pids, n) {
			roots = append(roots, pid)
		}
	}
	return roots
}

// fillDisk takes all that is left of the disk, for a while.
func (c *chaos) fillDisk(random *rand.Rand) {
	filler := filepath.Join(c.Home, "filler")
	for c.pause(random, 500*time.Millisecond, 3*time.Second) {
		c.full.Add(1)
		if err := fill(filler); !errors.Is(err, syscall.ENOSPC) {
			c.Error(err)
		}
		c.pause(random, 300*time.Millisecond, 1500*time.Millisecond)
		if err := os.Remove(filler); err != nil {
			c.Error(err)
		}
		c.full.Add(1)
		c.count("disks filled")
	}
}

func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for size := 1 << 20; size > 0; {
		if _, err = f.Write(make([]byte, size)); err != nil {
			size /= 2
		}
	}
	return errors.Join(err, f.Close())
}

const lockEnv = "SILK_E2E_TEST_LOCK"

// TestHoldLock is the other process of lockDatabase: it holds the write lock until its input ends.
func TestHoldLock(t *testing.T) {
	home := os.Getenv(lockEnv)
	if home == "" {
		return
	}
	db, err := store.Open(t.Context(), filepath.Join(home, store.FileName))
	if err != nil {
		return // the disk is full
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		return
	}
	os.Stdout.WriteString("holds\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = tx.Rollback()
}

func (c *chaos) lockDatabase(random *rand.Rand) {
	for c.pause(random, 300*time.Millisecond, 2*time.Second) {
		cmd := exec.CommandContext(c.Context(), os.Args[0], "-test.run=^TestHoldLock$")
		cmd.Env = append(os.Environ(), lockEnv+"="+c.Home)
		var out bytes.Buffer
		cmd.Stdout = &out
		in, err := cmd.StdinPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			c.Error(err)
			return
		}
		c.pause(random, 500*time.Millisecond, 2*time.Second)
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			c.Errorf("%v: %s", err, out.String())
		}
		if strings.Contains(out.String(), "holds") {
			c.count("databases locked")
		}
	}
}

// ask asks for one run until it is accepted, and has it watched.
func (c *chaos) ask(n int, random *rand.Rand, viewers *sync.WaitGroup) {
	program := random.IntN(len(chaosPrograms))
	in := api.RunRequest{Profile: "lab:text", Args: []string{"sh", "-c", chaosPrograms[program].script}}
	if d := chaosPrograms[program].timeout; d > 0 {
		in.Limits = api.Limits{TimeoutMs: d.Milliseconds()}
	}
	body, err := json.Marshal(in)
	if err != nil {
		c.Error(err)
		return
	}
	for began := time.Now(); ; {
		full := c.full.Load()
		r, status, err := c.submit(body, fmt.Sprintf("run-%d", n))
		if err == nil {
			run := &chaosRun{id: r.ID, program: program, viewer: newViewer(c.server, r.ID, random.Uint64(), c.full.Load), full: full}
			c.mu.Lock()
			c.runs = append(c.runs, run)
			c.mu.Unlock()
			viewers.Go(run.viewer.watch)
			if n%5 == 0 {
				viewers.Go(func() { c.attach(r.ID, time.Duration(random.IntN(2000))*time.Millisecond) })
			}
			break
		}
		c.mu.Lock()
		c.answered[status]++
		c.mu.Unlock()
		if time.Since(began) > time.Minute {
			c.Errorf("run %d is not accepted for a minute: %v", n, err)
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	<-time.After(time.Duration(random.IntN(400)) * time.Millisecond)
}

// submit asks once. status is what a client has to go by if it is refused.
func (c *chaos) submit(body []byte, key string) (r api.Run, status string, err error) {
	ctx, cancel := context.WithTimeout(c.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://localhost/v1/runs", bytes.NewReader(body))
	if err != nil {
		return r, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := c.server.client.Do(req)
	if err != nil {
		return r, "no answer", err
	}
	text, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return r, "half an answer", err
	}
	if resp.StatusCode >= 300 {
		var p api.Problem
		if err := json.Unmarshal(text, &p); err != nil {
			return r, resp.Status, fmt.Errorf("%s: %s", resp.Status, text)
		}
		if resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusInsufficientStorage && resp.StatusCode != http.StatusTooManyRequests {
			c.Errorf("a client cannot know whether to try again: %s", text)
		}
		return r, fmt.Sprint(resp.StatusCode, " ", p.Type), errors.New(p.Detail)
	}
	return r, "", json.Unmarshal(text, &r)
}

// attach has a program watch a run, and kills it after a while.
func (c *chaos) attach(run string, after time.Duration) {
	cmd := c.Command(c.Context(), "--server", "unix://"+filepath.Join(c.Home, "silk.sock"), "runs", "attach", run)
	if err := cmd.Start(); err != nil {
		c.Error(err)
		return
	}
	kill := time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() < 0 {
		c.count("viewers killed")
	}
}

// check looks at what is left when all is over.
func (c *chaos) check() {
	all := map[string]bool{}
	var ids []string
	words := map[string]string{}
	kinds := map[string]int{}
	for _, r := range c.runs {
		if all[r.id] {
			c.Errorf("run %s was accepted twice", r.id)
		}
		all[r.id] = true
		ids = append(ids, r.id)
		got := decodeAs[api.Run](c.server, "GET", "/v1/runs/"+r.id, "")
		if got.State != api.StateEnded || got.Outcome == nil {
			c.Errorf("run %s: %+v", r.id, got)
			continue
		}
		kinds[got.Outcome.Kind]++
		for _, err := range r.problems(c.server, *got.Outcome, words) {
			c.Errorf("run %s (%s): %v", r.id, chaosPrograms[r.program].script, err)
		}
	}
	c.Logf("%d runs: %v", len(ids), kinds)
	if n := c.listed(all); n != len(all) {
		c.Errorf("%d runs are listed, %d were accepted", n, len(all))
	}
	if len(ids) != chaosRuns() {
		c.Errorf("%d runs were accepted", len(ids))
	}
	c.checkEnds(ids)
}

// listed counts the runs that the server knows, and looks for strange ones.
func (c *chaos) listed(all map[string]bool) (n int) {
	for cursor := ""; ; {
		page := decodeAs[api.Page[api.Run]](c.server, "GET", "/v1/runs?limit=100&cursor="+cursor, "")
		for _, r := range page.Items {
			n++
			if !all[r.ID] {
				c.Errorf("run %s was accepted, and nobody told", r.ID)
			}
		}
		if cursor = page.Next; cursor == "" {
			return n
		}
	}
}

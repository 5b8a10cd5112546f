package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/api"
)

// viewer watches one run through connections that are cut again and again, and goes on where it was.
type viewer struct {
	s      *server
	run    string
	random *rand.Rand
	ctx    context.Context
	leave  context.CancelFunc

	most     int // milliseconds of one connection
	channels map[string]*seen
	exit     *api.Outcome
	now      func() int64
	exitAt   int64 // what now said
	cuts     int
	problems []error
}

// seen is what came of one channel: bytes, and ranges that are gone.
type seen struct {
	data []byte
	gaps [][2]int64
}

func newViewer(s *server, run string, seed uint64, now func() int64) *viewer {
	ctx, cancel := context.WithCancel(s.Context())
	return &viewer{
		s: s, run: run, random: rand.New(rand.NewPCG(seed, 0)), ctx: ctx, leave: cancel, now: now, most: 1500,
		channels: map[string]*seen{"stdout": {}, "stderr": {}},
	}
}

// watch reads until it has seen the end of the run.
func (v *viewer) watch() {
	for v.exit == nil && v.ctx.Err() == nil && len(v.problems) < 5 {
		ctx, cut := context.WithTimeout(v.ctx, time.Duration(20+v.random.IntN(v.most))*time.Millisecond)
		v.connect(ctx)
		cut()
		v.cuts++
		select {
		case <-time.After(20 * time.Millisecond): // the server may be away
		case <-v.ctx.Done():
		}
	}
}

func (v *viewer) problem(format string, args ...any) {
	v.problems = append(v.problems, fmt.Errorf(format, args...))
}

// connect reads one connection until it is cut.
func (v *viewer) connect(ctx context.Context) {
	from := api.Tail{Stdout: int64(len(v.channels["stdout"].data)), Stderr: int64(len(v.channels["stderr"].data))}
	url := fmt.Sprintf("http://localhost/v1/runs/%s/stream?stdout=%d&stderr=%d", v.run, from.Stdout, from.Stderr)
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		v.problem("%w", err)
		return
	}
	resp, err := v.s.client.Do(req)
	if err != nil {
		return // the server is away
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		if resp.StatusCode < 500 {
			v.problem("from %+v the stream is %s", from, resp.Status)
		}
		return
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	first := true
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var f api.Frame
		if err := json.Unmarshal(data, &f); err != nil {
			return // cut in the middle of a line
		}
		if first && (f.Type != api.FrameHello || f.TailFrom == nil || *f.TailFrom != from) {
			v.problem("asked for %+v, the stream begins with %s", from, data)
		}
		first = false
		v.frame(f)
	}
}

func (v *viewer) frame(f api.Frame) {
	if v.exit != nil {
		v.problem("a frame %s after the exit", f.Type)
	}
	switch f.Type {
	case api.FrameOutput:
		data, err := f.Bytes()
		c := v.channels[f.Channel]
		if err != nil || *f.Offset != int64(len(c.data)) {
			v.problem("%s at %d comes after %d bytes, %w", f.Channel, *f.Offset, len(c.data), err)
			return
		}
		c.data = append(c.data, data...)
	case api.FrameGap:
		c := v.channels[f.Channel]
		if *f.From != int64(len(c.data)) || *f.To <= *f.From {
			v.problem("a gap from %d to %d after %d bytes of %s", *f.From, *f.To, len(c.data), f.Channel)
			return
		}
		c.gaps = append(c.gaps, [2]int64{*f.From, *f.To})
		c.data = append(c.data, make([]byte, *f.To-*f.From)...)
	case api.FrameExit:
		v.exit, v.exitAt = f.Outcome, v.now()
	}
}

// problems compares the record of a run with what its program must have printed and with what its viewer saw. words has the
// run by its word.
func (r *chaosRun) problems(s *server, out api.Outcome, words map[string]string) (all []error) {
	problem := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	all = append(all, r.viewer.problems...)
	p := chaosPrograms[r.program]
	lost := out.Kind == "error" && out.Reason == "host"
	if out.Kind != p.kind && !lost {
		problem("it ended as %s, %s: %s", out.Kind, out.Reason, out.Message)
	}
	if exit := r.viewer.exit; exit == nil || exit.Kind != out.Kind || exit.Reason != out.Reason || exit.Rule != out.Rule {
		problem("the stream ends with %+v, the record with %+v", exit, out)
	} else if !lost && cmp.Diff(exit.ExitCode, out.ExitCode) != "" {
		problem("the stream ends with another exit code than the record, %+v", out)
	}
	for name, channel := range map[string]api.Channel{"stdout": out.Stdout, "stderr": out.Stderr} {
		text, err := s.try("GET", "/v1/runs/"+r.id+"/output/"+name, "")
		if err != nil && !(lost && channel.Bytes == 0) {
			problem("%s: %w", name, err)
			continue
		}
		sum := sha256.Sum256(text)
		switch whole := int64(len(text)) == channel.Bytes; {
		case channel.Truncated == whole, int64(len(text)) > channel.Bytes:
			problem("%s is %d bytes, the record says %+v", name, len(text), channel)
		case whole && len(text) > 0 && channel.SHA256 != hex.EncodeToString(sum[:]):
			problem("%s has another hash than the record", name)
		}
		saw := r.viewer.channels[name]
		full := r.full%2 == 1 || r.full != r.viewer.exitAt // while it ran, the disk was full
		if channel.Truncated && !full {
			problem("%s is not kept whole: %+v", name, channel)
		}
		all = append(all, saw.compare(name, text, channel, lost && full)...)
		if channel.Truncated && len(saw.gaps) == 0 && !lost { // a full disk took it from the record, not from the viewer
			text = saw.data
		}
		if name == "stdout" {
			all = append(all, r.printed(string(text), lost || channel.Truncated, words)...)
		}
	}
	return all
}

// compare looks whether the viewer saw what the record has: the same bytes, all of them or told that they are gone. Of a run that
// was lost while the disk was full, the viewer may have seen more.
func (c *seen) compare(name string, record []byte, said api.Channel, lost bool) (all []error) {
	if n := int64(len(c.data)); n != said.Bytes && !(lost && n > said.Bytes) {
		all = append(all, fmt.Errorf("the viewer saw %d bytes of %s, the record says %d", n, name, said.Bytes))
	}
	known := bytes.Clone(record)
	for _, gap := range c.gaps {
		for i := gap[0]; i < gap[1] && i < int64(len(known)); i++ {
			known[i] = 0
		}
	}
	n := min(len(known), len(c.data))
	if !bytes.Equal(known[:n], c.data[:n]) {
		all = append(all, fmt.Errorf("the viewer saw other bytes of %s than the record has", name))
	}
	return all
}

// printed looks whether a record is of one execution of the program: all of it, or the beginning if it was lost.
func (r *chaosRun) printed(text string, lost bool, words map[string]string) (all []error) {
	p := chaosPrograms[r.program]
	line, rest, whole := strings.Cut(text, "\n")
	w, ok := strings.CutPrefix(line, "word ")
	if !whole && (lost || p.kind == "timeout") { // on a busy machine a time limit may come before the first line
		return nil // it had not come so far
	}
	if !ok || len(w) != 24 || words[w] != "" {
		return []error{fmt.Errorf("its output begins with %.40q, a word that run %q has", line, words[w])}
	}
	words[w] = r.id
	if n := strings.Count(text, "word "); n != 1 {
		all = append(all, fmt.Errorf("its word is there %d times", n))
	}
	if p.kind != "ok" && p.kind != "failed" {
		return all
	}
	if p.middle == nil {
		if !lost && (!strings.HasSuffix(rest, "end "+w+"\n") || len(rest) != 200000+len(w)+5) {
			all = append(all, errors.New("its output is not whole"))
		}
		return all
	}
	want := p.middle() + "end " + w + "\n"
	if rest != want && !(lost && strings.HasPrefix(want, rest)) {
		all = append(all, fmt.Errorf("after its word it printed %d bytes, want %d", len(rest), len(want)))
	}
	return all
}

package fuzz

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/tests/fuzz/tree"
	"github.com/silk-sandbox/silk/watch"
)

// Environment of a long search.
const (
	envFor  = "SILK_FUZZ_FOR"
	envSeed = "SILK_FUZZ_SEED"
)

// batch is how many cases one sandbox runs: few where the time is short.
func batch(most time.Duration) int {
	if most == 0 {
		return 50
	}
	return 150
}

// duration is how long to search; 0: one batch.
func duration(t *testing.T) (time.Duration, uint64) {
	t.Helper()
	var d time.Duration
	seed := uint64(1)
	var err error
	if v := os.Getenv(envFor); v != "" {
		seed = uint64(time.Now().UnixNano())
		if d, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
	}
	if v := os.Getenv(envSeed); v != "" {
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return d, seed
}

// TestPaths: both kernels have the same answers.
func TestPaths(t *testing.T) {
	s := newSides(t)
	most, seed := duration(t)
	total := count{differences: map[string]int{}}
	for start, n := time.Now(), batch(most); ; seed += uint64(n) {
		cases := make([]tree.Case, n)
		for i := range cases {
			cases[i] = tree.New(seed+uint64(i), tree.Config{})
		}
		if err := s.compare(t, cases, &total); err != nil {
			t.Fatal(err)
		}
		if time.Since(start) >= most || t.Failed() && os.Getenv("SILK_FUZZ_ALL") == "" {
			break
		}
	}
	t.Logf("%d cases, %d questions, %d names compared; accepted: %v", total.cases, total.questions, total.names, total.differences)
	if total.names < total.questions*9/10 {
		t.Errorf("only %d of %d questions had an event", total.names, total.questions)
	}
}

// count is what has been compared.
type count struct {
	cases, questions, names int
	differences             map[string]int // those that were accepted
}

// compare asks both sides.
func (s sides) compare(t *testing.T, cases []tree.Case, total *count) error {
	t.Helper()
	want, err := s.host(t.Context(), cases)
	if err != nil {
		return err
	}
	got, err := s.box(t.Context(), cases)
	if err != nil {
		return err
	}
	if got.last.Outcome != "ok" {
		return fmt.Errorf("seeds %d to %d: the run ended with %+v", cases[0].Seed, cases[len(cases)-1].Seed, got.last)
	}
	number := 0
	for i, c := range cases {
		total.cases++
		if why := sameSteps(c, want[i], got.answers[i].Steps); why != "" {
			t.Errorf("seed %d: %s", c.Seed, why)
		}
		if otherTree(want[i].Steps, got.answers[i].Steps) {
			total.differences["a tree that came to be in another way, its questions left out"]++
			number += len(c.Questions) + 1
			continue
		}
		for j, q := range c.Questions {
			total.questions++
			e, seen := got.events[number]
			number++
			w, g := want[i].Answers[j], got.answers[i].Answers[j]
			if seen {
				total.names++
				g.Name = []byte(e.Argument)
			} else {
				g.Name = nil
			}
			reason := accepted(q, w, g)
			if reason == "" {
				t.Errorf("%s", report(c, j, w, g))
				continue
			}
			if reason != same {
				total.differences[reason]++
			}
			if (w.Errno == 0) != (g.Errno == 0) && q.Flags&(tree.OCreate|tree.OTruncate) != 0 {
				number += len(c.Questions) - 1 - j
				break // from here on the trees differ
			}
		}
		number++ // the mark at the end of a case
	}
	return nil
}

// sameSteps compares how a tree came to be.
func sameSteps(c tree.Case, host tree.Answers, got []int) string {
	for i, want := range host.Steps {
		if want != got[i] && !acceptedStep(c.Steps[i], host.Opened[i].Way, syscall.Errno(want), syscall.Errno(got[i])) {
			return fmt.Sprintf("step %d %s %q %q: errno %v, want %v", i, c.Steps[i].Kind, c.Steps[i].Name, c.Steps[i].Target, errno(got[i]), errno(want))
		}
	}
	return ""
}

// otherTree says whether a step was done on one side only.
func otherTree(want, got []int) bool {
	for i := range want {
		if (want[i] == 0) != (got[i] == 0) {
			return true
		}
	}
	return false
}

func errno(n int) string {
	if n == 0 {
		return "none"
	}
	return syscall.Errno(n).Error()
}

// report says what differs, with all that is needed to see why.
func report(c tree.Case, question int, want, got tree.Answer) string {
	var b strings.Builder
	q := c.Questions[question]
	fmt.Fprintf(&b, "seed %d question %d: exec %t dirfd %d %q flags %#o\n", c.Seed, question, q.Exec, q.DirFD, shortened(q.Name), q.Flags)
	fmt.Fprintf(&b, "  want %s\n  got  %s\n", words(want), words(got))
	if os.Getenv("SILK_FUZZ_TREES") != "" {
		for _, s := range c.Steps {
			fmt.Fprintf(&b, "    %s %q %q %#o fd %d\n", s.Kind, shortened(s.Name), shortened(s.Target), s.Mode, s.FD)
		}
	}
	return b.String()
}

func words(a tree.Answer) string {
	return fmt.Sprintf("errno %d (%s) path %q type %#o text %q name %q way %+q", a.Errno, errno(a.Errno), shortened(a.Path), a.Type, shortened(a.Text), shortened(a.Name), fmt.Sprintf("%+v", a.Way))
}

func shortened(s []byte) string {
	if len(s) > 300 {
		return string(s[:140]) + " ... " + string(s[len(s)-140:])
	}
	return string(s)
}

// sameName says whether the name of an event is the one of the host's kernel.
func sameName(want, got []byte) bool {
	return watch.Printable(string(want[:min(len(want), 1024)])) == string(got)
}

// undeleted is a name that /proc has of what has been removed, without the remark.
func undeleted(name []byte) []byte { return bytes.TrimSuffix(name, []byte(" (deleted)")) }

// TestFixedPaths holds what was answered wrongly once.
func TestFixedPaths(t *testing.T) {
	s := newSides(t)
	at := func(name string, flags int) tree.Question {
		return tree.Question{DirFD: tree.NoDir, Name: []byte(name), Flags: flags | tree.ONonblock}
	}
	c := tree.Case{
		Steps: []tree.Step{
			{Kind: tree.Dir, Name: []byte(tree.Work), Mode: 0o755},
			{Kind: tree.Chdir, Name: []byte(tree.Work)},
			{Kind: tree.File, Name: []byte("file"), Mode: 0o644},
			{Kind: tree.File, Name: []byte("closed"), Mode: 0},
			{Kind: tree.Fifo, Name: []byte("fifo"), Mode: 0o644},
			{Kind: tree.Dir, Name: []byte("dir"), Mode: 0o755},
			{Kind: tree.Link, Name: []byte("link"), Target: []byte("dir")},
		},
		Questions: []tree.Question{
			at("file", tree.OWrite|tree.OTruncate|tree.ODirectory), at("file", 0), // it is not cut
			at("file", tree.OReadWrite|tree.OTruncate|tree.ODirectory|tree.ONoFollow), at("file", 0),
			at("closed", tree.ODirectory), at("closed", tree.ODirectory|tree.ONoFollow), at("fifo", tree.ODirectory), at("fifo", tree.OWrite|tree.ODirectory|tree.ONoFollow),
			at("link", tree.ODirectory), at("link", tree.ODirectory|tree.ONoFollow), at("link/", tree.ODirectory|tree.ONoFollow), at("link", tree.ONoFollow),
			at("link", tree.OPath|tree.ODirectory|tree.ONoFollow), at("link", tree.OPath|tree.ONoFollow), at("link", tree.OPath|tree.OCreate|tree.OExclusive),
			at("link/.", tree.ONoFollow), at("dir", tree.ODirectory|tree.ONoFollow), at("nothing", tree.ODirectory),
		},
	}
	total := count{differences: map[string]int{}}
	if err := s.compare(t, []tree.Case{c}, &total); err != nil {
		t.Fatal(err)
	}
	if len(total.differences) > 0 {
		t.Errorf("accepted: %v", total.differences)
	}
}

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// report is what the console of the machine said. Its first process speaks in lines that begin with "cgroup2: ", and
// the test binaries print what `go test -v` does.
type report struct {
	out      io.Writer // receives the lines that a person wants to see
	part     string    // that runs now
	passed   int       // in it
	total    int
	done     bool
	problems []string
}

var result = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (\S+)`)

// read takes in the console until its end.
func (r *report) read(console io.Reader) error {
	lines := bufio.NewScanner(console)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		r.line(strings.TrimRight(lines.Text(), "\r"))
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the machine's console: %w", err)
	}
	return nil
}

func (r *report) line(line string) {
	if said, ok := strings.CutPrefix(line, "cgroup2: "); ok {
		r.said(said)
		return
	}
	if line == "" || strings.HasPrefix(line, "=== ") {
		return
	}
	fmt.Fprintln(r.out, line)
	m := result.FindStringSubmatch(line)
	switch {
	case m == nil:
	case m[1] == "PASS":
		r.passed++
	case m[1] == "FAIL":
		r.problem("%s: %s failed", r.part, m[2])
	case m[1] == "SKIP": // the machine was made for them
		r.problem("%s: %s was not run", r.part, m[2])
	}
}

// said takes in a line of the first process.
func (r *report) said(text string) {
	word, rest, _ := strings.Cut(text, " ")
	switch word {
	case "part":
		r.part, r.passed = rest, 0
		fmt.Fprintf(r.out, "== %s\n", rest)
	case "end":
		if rest != r.part+" 0" {
			r.problem("%s: the test binary ended with status %s", r.part, strings.TrimPrefix(rest, r.part+" "))
		}
		if r.passed == 0 {
			r.problem("%s: no test passed", r.part)
		}
		r.total += r.passed
	case "left":
		r.problem("%s: the control group %s is left", r.part, rest)
	case "done":
		r.done = true
	default:
		r.problem("%s", text)
	}
}

func (r *report) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// verdict is nil if every part ran to its end without a problem.
func (r *report) verdict() error {
	if !r.done {
		r.problem("the machine ended before its tests did, in part %q", r.part)
	}
	if len(r.problems) > 0 {
		return errors.New(strings.Join(r.problems, "\n"))
	}
	return nil
}

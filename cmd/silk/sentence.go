package main

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/egress"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/run"
)

// told is what the user asked for, as far as it changes what a run's end means to them.
type told struct {
	remote  bool        // it ran in a server
	plan    policy.Plan // zero if it was refused
	guessed string      // the language that code got because nothing named one
	alerted bool        // a violation has been told on stderr
}

// sentence says in one line how a run ended that was not ok: the outcome, the rule, and what the user can do. It is empty
// if there is nothing to say. Text that the program may have chosen is quoted.
func sentence(o run.Outcome, t told) string {
	switch o.Kind {
	case run.OK:
		return ""
	case run.Failed:
		return failedSentence(o, t)
	case run.Timeout, run.OOM:
		if t.plan.Skill != nil {
			return fmt.Sprintf("%s: %s, as the skill's manifest has it; what it printed until then is kept", o.Kind, o.Message)
		}
		return limitSentence(o)
	case run.Violated:
		return violatedSentence(o, t)
	case run.Denied:
		return trimPrefix("denied: ", o.Message)
	case run.Canceled:
		return "canceled" + tail(": ", o.Message)
	case run.Error:
		return trimPrefix("error: ", o.Message)
	}
	return string(o.Kind) + tail(": ", o.Message)
}

// limitSentence says which flag would have let the program go on.
func limitSentence(o run.Outcome) string {
	if o.Kind == run.Timeout {
		return "timeout: " + o.Message + "; what it printed until then is kept; raise the limit with --timeout"
	}
	return "oom: " + o.Message + "; raise the limit with --memory"
}

// violatedSentence is what an alert leaves to say.
func violatedSentence(o run.Outcome, t told) string {
	var parts []string
	if !t.alerted {
		parts = append(parts, fmt.Sprintf("violated: rule %s: %s %q; the sandbox was ended before it had an effect", o.Rule, o.Syscall, o.Argument))
	}
	if o.Rule == rules.NetworkInet && t.plan.Skill == nil {
		parts = append(parts, "--net loopback allows sockets inside the sandbox, --net HOST:PORT,... to these hosts")
	}
	return strings.Join(parts, "; ")
}

func failedSentence(o run.Outcome, t told) string {
	s := "failed: " + o.Message
	switch {
	case o.Signal != 0:
		s = fmt.Sprintf("failed: the program was ended by signal %d (%s)", o.Signal, signalName(o.Signal))
	case o.Phase == "compile" && o.ExitCode != nil:
		s = fmt.Sprintf("failed: the compiler exited with %d; the program was not started", *o.ExitCode)
	}
	if t.guessed != "" {
		s += fmt.Sprintf(" (ran as %s; name the language with --lang or -p)", t.guessed)
	}
	return s + wrongProfile(o, t.plan)
}

// wrongProfile says which profile has the interpreter or compiler that was not there.
func wrongProfile(o run.Outcome, p policy.Plan) string {
	l, ok := profile.LanguageNamed(p.Language)
	if !ok || l.Profile == p.Profile || o.ExitCode == nil || *o.ExitCode != 127 {
		return ""
	}
	tool := l.Command[0]
	if p.Compile {
		tool = l.Compile[0]
	}
	// A script may end with 127 of its own: what was not there is the compiler, or named in the message.
	if o.Phase != "compile" && !strings.Contains(o.Message, tool) {
		return ""
	}
	return fmt.Sprintf("; %s has no %s: leave -p out or use -p %s", p.Profile, tool, l.Profile)
}

// trimPrefix puts prefix before text, once.
func trimPrefix(prefix, text string) string {
	if strings.HasPrefix(text, strings.TrimSuffix(prefix, ": ")) {
		return text
	}
	return prefix + text
}

func tail(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// signalName gives the usual name of a signal that ends programs, from signal(7) on amd64.
func signalName(n int) string {
	names := map[int]string{
		1: "SIGHUP", 2: "SIGINT", 3: "SIGQUIT", 4: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 10: "SIGUSR1",
		11: "SIGSEGV", 12: "SIGUSR2", 13: "SIGPIPE", 14: "SIGALRM", 15: "SIGTERM", 24: "SIGXCPU", 25: "SIGXFSZ", 31: "SIGSYS",
	}
	if name, ok := names[n]; ok {
		return name
	}
	return "see kill -l"
}

// maxRefusals is how many rules that refused something are named in one line.
const maxRefusals = 3

// limitNotes says in words which limits and rules were hit without ending the run. The JSON of an outcome has the counters.
func limitNotes(o run.Outcome, l profile.Limits) string {
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(o.Flags)) {
		if n := o.Flags[name]; n != 0 {
			notes = append(notes, limitNote(name, n, l))
		}
	}
	shown, more := 0, int64(0)
	for _, name := range slices.Sorted(maps.Keys(o.Refused)) {
		switch r, _ := rules.Named(name); {
		case r.Action == rules.Absent: // which runtimes try at every start
		case shown == maxRefusals:
			more += o.Refused[name]
		default:
			notes = append(notes, fmt.Sprintf("rule %s refused a call %s", name, times(o.Refused[name])))
			shown++
		}
	}
	if more > 0 {
		notes = append(notes, fmt.Sprintf("other rules refused calls %s: `silk runs show` has them all", times(more)))
	}
	return strings.Join(notes, "; ")
}

// egressNote says in one line what the program was kept from reaching and what would let it, and what it could have reached, had it been there.
func egressNote(o run.Outcome, p policy.Plan) string {
	var named, flags, missed []string
	attempts, guessed := int64(o.EgressMore), false
	for _, d := range o.Egress {
		if d.Allowed {
			if d.Reason != "" && (d.Rule != "" || d.Count == 1 || d.Sent+d.Taken == 0) && len(missed) < maxRefusals {
				missed = append(missed, refusedText(d))
			}
			continue
		}
		attempts += int64(d.Count)
		if len(named) < maxRefusals {
			named = append(named, refusedText(d))
		}
		if flag := flagFor(d); flag != "" && !slices.Contains(flags, flag) {
			flags = append(flags, flag)
			guessed = guessed || d.Port == 0
		}
	}
	if len(named)+len(missed) == 0 {
		return ""
	}
	s := "network: "
	if len(missed) > 0 {
		s += "allowed, but failed: " + strings.Join(missed, "; ")
	}
	if len(named) > 0 && len(missed) > 0 {
		s += "; "
	}
	if len(named) > 0 {
		s += fmt.Sprintf("refused %s: %s", times(attempts), strings.Join(named, "; "))
	}
	if len(flags) > 0 && p.Network == profile.NetworkAllowlist {
		s += "; --net " + strings.Join(append(slices.Clone(p.Hosts), flags[:min(len(flags), maxRefusals)]...), ",") + " would allow it"
		if guessed {
			s += ", if 443 is the port"
		}
	}
	return s
}

// flagFor is what a refused destination would be in --net; "" where no flag helps, as the reason says what does.
func flagFor(d run.Destination) string {
	_, err := netip.ParseAddr(d.Host)
	switch literal := err == nil; {
	case d.Kind == "dns" && d.Rule == egress.RefusedName:
		d.Port = 443 // nobody knows which one it would be
	case d.Kind != "tcp", d.Rule != egress.RefusedPort && !(literal && d.Rule == egress.RefusedAddress):
		return ""
	}
	text := net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
	if _, err := egress.ParseRule(text); err != nil {
		return ""
	}
	return text
}

// refusedText is one refusal. The host is the program's choice of words.
func refusedText(d run.Destination) string {
	host := d.Host
	if d.Port != 0 {
		host = net.JoinHostPort(d.Host, strconv.Itoa(d.Port))
	}
	reason := strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return ',' // one failure for each address
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, d.Reason)
	return fmt.Sprintf("%s (%s)", printable(host), reason)
}

func limitNote(name string, n int64, l profile.Limits) string {
	switch name {
	case "output_truncated":
		return fmt.Sprintf("the record keeps the first %s of each channel: %s of output are not in it", profile.FormatBytes(l.OutputBytes), sizeText(n))
	case "tmp_full":
		return "/tmp or /dev/shm was full"
	case "disk_full":
		return fmt.Sprintf("/workspace was full (%s); --disk makes it larger", profile.FormatBytes(l.WorkspaceBytes))
	case "pids_limit_hit":
		return fmt.Sprintf("the limit of %d processes was hit %s; --processes raises it", l.Processes, times(n))
	case "artifacts_omitted":
		if n == 1 {
			return "1 artifact could not be kept"
		}
		return fmt.Sprintf("%d artifacts could not be kept", n)
	case "workspace_lost":
		return "the files in /workspace were lost with the sandbox"
	}
	return fmt.Sprintf("%s %d", name, n)
}

func times(n int64) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// notKept says what a run without --artifacts could have left with it.
func notKept(artifacts []run.Artifact, remote bool) string {
	n := 0
	for _, a := range artifacts {
		if a.Omitted == "" && a.Type == "file" {
			n++
		}
	}
	switch {
	case n == 0:
		return ""
	case remote && n == 1:
		return "the server has 1 artifact; --artifacts DIR receives a copy"
	case remote:
		return fmt.Sprintf("the server has %d artifacts; --artifacts DIR receives copies", n)
	case n == 1:
		return "1 artifact was not kept; --artifacts DIR receives it"
	}
	return fmt.Sprintf("%d artifacts were not kept; --artifacts DIR receives them", n)
}

// artifactLine describes one artifact; dir is where copies are, or "".
func artifactLine(a run.Artifact, dir string) string {
	name := a.Path
	if dir != "" && a.Omitted == "" && a.Type == "file" {
		name = path.Join(dir, a.Path)
	}
	s := printable(name)
	if a.Type != "file" {
		return s + " (" + a.Type + ", not copied)"
	}
	s += " (" + sizeText(a.Size) + tail(", ", or(a.Display, a.MIME)) + ")"
	return s + tail(": ", a.Omitted)
}

// printable quotes a name that a terminal might take for a command, or that spans lines.
func printable(name string) string {
	if q := fmt.Sprintf("%q", name); q != `"`+name+`"` {
		return q
	}
	return name
}

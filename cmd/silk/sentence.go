package main

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/run"
)

// sentence says in one line how a run ended that was not ok: the outcome, the rule, and what the user can do. Text that
// the program may have chosen is quoted.
func sentence(o run.Outcome) string {
	switch o.Kind {
	case run.Failed:
		switch {
		case o.Signal != 0:
			return fmt.Sprintf("failed: the program was ended by signal %d (%s)", o.Signal, signalName(o.Signal))
		case o.Phase == "compile" && o.ExitCode != nil:
			return fmt.Sprintf("failed: the compiler exited with %d; the program was not started", *o.ExitCode)
		}
		return "failed: " + o.Message
	case run.Timeout:
		return "timeout: " + o.Message + "; what it printed until then is kept; raise the limit with --timeout"
	case run.OOM:
		return "oom: " + o.Message + "; raise the limit with --memory"
	case run.Violated:
		s := fmt.Sprintf("violated: rule %s: %s", o.Rule, o.Syscall)
		if o.Argument != "" {
			s += fmt.Sprintf(" %q", o.Argument)
		}
		s += "; the sandbox was ended before it had an effect"
		if o.Rule == "network" {
			s += "; --net loopback allows sockets inside the sandbox"
		}
		return s
	case run.Denied:
		return trimPrefix("denied: ", o.Message)
	case run.Canceled:
		return "canceled" + tail(": ", o.Message)
	case run.Error:
		return trimPrefix("error: ", o.Message)
	}
	return string(o.Kind) + tail(": ", o.Message)
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

// limitNotes lists the limits that were hit without ending the run: "disk_full 3, output_truncated 1048576".
func limitNotes(o run.Outcome) string {
	var notes []string
	for _, name := range slices.Sorted(maps.Keys(o.Flags)) {
		if o.Flags[name] != 0 {
			notes = append(notes, fmt.Sprintf("%s %d", name, o.Flags[name]))
		}
	}
	return strings.Join(notes, ", ")
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
	s += " (" + sizeText(a.Size) + tail(", ", a.MIME) + ")"
	return s + tail(": ", a.Omitted)
}

// printable quotes a name that a terminal might take for a command, or that spans lines.
func printable(name string) string {
	if q := fmt.Sprintf("%q", name); q != `"`+name+`"` {
		return q
	}
	return name
}

package profile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// YAML writes p as an entry of the configuration file's `profiles:`, complete, so that [ReadAll] reads it back.
func (p Profile) YAML() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s:", p.Name)
	if p.Summary != "" {
		line("  summary: %s", strconv.Quote(p.Summary))
	}
	line("  image: %s", strconv.Quote(p.Image))
	line("  language: %s", p.Language)
	line("  network: %s", p.Network)
	writeNames(line, "hosts", p.Hosts)
	if p.OnRefused != "" {
		line("  on_refused: %s", p.OnRefused)
	}
	if s := p.Service; s != nil {
		line("  service: {variable: %s, url: %s}", s.Variable, strconv.Quote(s.URL))
	}
	writeLimits(line, "limits", p.Limits)
	if p.Max != (Limits{}) {
		writeLimits(line, "max", p.Max)
	}
	if len(p.Env) > 0 {
		line("  env:")
	}
	for _, key := range slices.Sorted(maps.Keys(p.Env)) {
		line("    %s: %s", key, strconv.Quote(p.Env[key]))
	}
	writeNames(line, "dirs", p.Dirs)
	writeNames(line, "ignore", p.Ignore)
	return b.String()
}

func writeLimits(line func(string, ...any), name string, l Limits) {
	line("  %s:", name)
	if l.Timeout != 0 {
		line("    timeout: %s", FormatTimeout(l.Timeout))
	}
	writeBytes := func(name string, n int64) {
		if n != 0 {
			line("    %s: %s", name, FormatBytes(n))
		}
	}
	writeBytes("memory", l.MemoryBytes)
	if l.CPUs != 0 {
		line("    cpus: %s", strconv.FormatFloat(l.CPUs, 'f', -1, 64))
	}
	if l.Processes != 0 {
		line("    processes: %d", l.Processes)
	}
	writeBytes("workspace", l.WorkspaceBytes)
	writeBytes("tmp", l.TmpBytes)
	writeBytes("shm", l.ShmBytes)
	writeBytes("output", l.OutputBytes)
}

func writeNames(line func(string, ...any), name string, names []string) {
	if len(names) == 0 {
		return
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	line("  %s: [%s]", name, strings.Join(quoted, ", "))
}

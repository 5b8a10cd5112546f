package testenv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/silk-sandbox/silk/internal/cgroup"
)

// ourPrefix begins the name of every cgroup, and of every directory outside TMPDIR, that silk makes.
const ourPrefix = "silk-"

// lasting are goroutines that the runtime and the standard library start once and keep for the life of the process.
var lasting = []string{
	"os/signal.signal_recv",
	"os/signal.loop",
	"runtime.ensureSigM",
	"testing.(*F).Fuzz",
	"testing.tRunner.func",
	"testing.runFuzzTests",
	"testing.(*M).startAlarm",
	"runtime.ReadTrace",
}

func (s snapshot) addGoroutines() {
	buf := make([]byte, 1<<16)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	for i, stack := range strings.Split(string(buf), "\n\n") {
		if i == 0 { // our own
			continue
		}
		head, body, _ := strings.Cut(stack, "\n") // goroutine 18 [chan receive]:
		fields := strings.Fields(head)
		if len(fields) < 2 || containsAny(body, lasting) {
			continue
		}
		s["goroutine "+fields[1]] = "goroutine " + strings.TrimSpace(stack)
	}
}

func containsAny(text string, words []string) bool {
	for _, w := range words {
		if strings.Contains(text, w) {
			return true
		}
	}
	return false
}

func (s snapshot) addDescriptors() error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	defer dir.Close()
	own := strconv.Itoa(int(dir.Fd()))
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("list descriptors: %w", err)
	}
	for _, name := range names {
		target, err := os.Readlink("/proc/self/fd/" + name)
		if err != nil || name == own { // closed meanwhile by another goroutine, or the directory itself
			continue
		}
		s["descriptor "+name+" "+target] = "descriptor " + name + " -> " + target
	}
	return nil
}

// process is what /proc/PID/stat says, see proc_pid_stat(5).
type process struct {
	pid, parent int
	name        string
	state       string
	startTicks  string // since boot; with pid it identifies a process for ever
}

func readProcess(pid int) (process, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, err
	}
	p, err := parseStat(pid, string(text))
	if err != nil {
		return process{}, err
	}
	// A program that was started through a descriptor is named after that in stat; the file it came from says more.
	if exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid)); err == nil {
		p.name = strings.TrimSuffix(filepath.Base(exe), " (deleted)")
	}
	return p, nil
}

func parseStat(pid int, text string) (process, error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')') // the name may contain both
	if open < 0 || end < open {
		return process{}, fmt.Errorf("read /proc/%d/stat: no name in %q", pid, text)
	}
	rest := strings.Fields(text[end+1:]) // rest[0] is field 3
	if len(rest) < 20 {
		return process{}, fmt.Errorf("read /proc/%d/stat: %d fields", pid, len(rest))
	}
	parent, err := strconv.Atoi(rest[1])
	if err != nil {
		return process{}, fmt.Errorf("read /proc/%d/stat: %w", pid, err)
	}
	return process{pid: pid, parent: parent, name: text[open+1 : end], state: rest[0], startTicks: rest[19]}, nil
}

func readProcesses() (map[int]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make(map[int]process, len(entries))
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if p, err := readProcess(pid); err == nil { // else it has just ended
			all[pid] = p
		}
	}
	return all, nil
}

// sentryName is how the name of every process of the sandbox kernel begins.
const sentryName = "silk-sentry"

// ours reports whether p descends from this process, or is an orphan of the sandbox kernel: what another living
// process started is that process's business.
func ours(all map[int]process, p process) bool {
	isSentry := func(p process) bool { return strings.HasPrefix(p.name, sentryName) }
	orphan := isSentry(p) // as long as the chain consists of nothing else
	for range all {       // no chain of parents is longer; a snapshot taken while pids are reused could have a loop
		if p.parent == os.Getpid() {
			return true
		}
		parent, ok := all[p.parent]
		switch {
		case !ok && p.parent > 1:
			return false // its parent ended while we looked: look again
		case orphan && !startsSentries(parent.name):
			return true // adopted by init or by another subreaper
		case !ok:
			return false
		}
		p, orphan = parent, orphan && isSentry(parent)
	}
	return false
}

// startsSentries reports whether a program with that name may have a sandbox kernel as its child: silk, another
// silk-sentry, or a test.
func startsSentries(name string) bool {
	return strings.HasPrefix(name, "silk") || strings.HasSuffix(name, ".test")
}

func (s snapshot) addProcesses() error {
	all, err := readProcesses()
	if err != nil {
		return err
	}
	own, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return fmt.Errorf("read network namespace: %w", err)
	}
	for _, p := range all {
		if !ours(all, p) {
			continue
		}
		s[fmt.Sprintf("process %d %s", p.pid, p.startTicks)] = fmt.Sprintf("process %d %q (state %s, parent %d)", p.pid, p.name, p.state, p.parent)
		if netns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.pid)); err == nil && netns != own {
			s["network namespace "+netns] = "network namespace " + netns
		}
	}
	return nil
}

// testMount is the source of the file systems that tests mount.
const testMount = "silk-test"

func (s snapshot) addMounts() error {
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	temp := filepath.Clean(os.TempDir()) + "/"
	for _, m := range mounts {
		text := m.String()
		ours := strings.HasPrefix(m.point, temp)
		if !ours && m.source == testMount { // of a test in another process
			continue
		}
		if strings.Contains(text, "silk") || ours {
			s["mount "+m.id+" "+m.point] = "mount " + text
		}
	}
	return nil
}

func (s snapshot) addCgroups() error {
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		if m.fsType != "cgroup" && m.fsType != "cgroup2" {
			continue
		}
		err := filepath.WalkDir(m.point, func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
				return nil // another process's cgroup went away during the walk
			}
			if err != nil {
				return err
			}
			if entry.IsDir() && strings.HasPrefix(entry.Name(), ourPrefix) && !cgroup.OfAnother(entry.Name()) {
				s["cgroup "+path] = "cgroup directory " + path
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("list cgroups: %w", err)
		}
	}
	return nil
}

func (s snapshot) addTempDirs() error {
	own := os.TempDir()
	for _, parent := range []string{own, "/dev/shm", "/run"} {
		entries, err := os.ReadDir(parent)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return fmt.Errorf("list temporary directories: %w", err)
		}
		for _, entry := range entries {
			if parent == own || strings.HasPrefix(entry.Name(), ourPrefix) {
				path := filepath.Join(parent, entry.Name())
				s["temporary "+path] = "temporary directory or file " + path
			}
		}
	}
	return nil
}

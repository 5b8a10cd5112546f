//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// descendants returns the pids of all processes below pid.
func descendants(pid int) ([]int, error) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	children := map[int][]int{}
	for _, path := range stats {
		words, err := stat(path)
		if err != nil {
			return nil, err
		}
		if words == nil {
			continue
		}
		parent, err := strconv.Atoi(words[1])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		children[parent] = append(children[parent], child)
	}
	var all []int
	for next := children[pid]; len(next) > 0; next = next[1:] {
		all = append(all, next[0])
		next = append(next, children[next[0]]...)
	}
	return all, nil
}

// stat returns the fields of /proc/PID/stat that follow the name, which stands in parentheses and may contain anything:
// state, parent, ... (proc(5)). nil if the process has ended.
func stat(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil //nolint:nilerr // ended
	}
	words := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(words) < 13 {
		return nil, fmt.Errorf("read %s: %d fields behind the name", path, len(words))
	}
	return words, nil
}

// cpuTicks is the user and system time of processes, in ticks of the kernel: fields 14 and 15 of proc(5).
func cpuTicks(pids []int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		path := fmt.Sprintf("/proc/%d/stat", pid)
		words, err := stat(path)
		if err != nil {
			return 0, err
		}
		if words == nil {
			continue
		}
		for _, word := range words[11:13] {
			n, err := strconv.ParseInt(word, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read %s: %w", path, err)
			}
			sum += n
		}
	}
	return sum, nil
}

// pss is the proportional set size of processes in bytes: their own pages, and their share of those they have in common
// with others (proc(5), smaps_rollup). A process that has ended counts nothing.
func pss(pids []int) (int64, error) {
	var sum int64
	for _, pid := range pids {
		kib, err := field(fmt.Sprintf("/proc/%d/smaps_rollup", pid), "Pss:")
		if err != nil {
			return 0, err
		}
		sum += kib << 10
	}
	return sum, nil
}

// peak is the largest resident set that a process has had, in bytes.
func peak(pid int) (int64, error) {
	kib, err := field(fmt.Sprintf("/proc/%d/status", pid), "VmHWM:")
	return kib << 10, err
}

// resident is what a process has in memory now, in bytes.
func resident(pid int) (int64, error) {
	kib, err := field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS:")
	return kib << 10, err
}

// field reads the number behind key; 0 if the process has ended or is a zombie.
func field(path, key string) (int64, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, nil //nolint:nilerr // ended
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) >= 2 && words[0] == key {
			n, err := strconv.ParseInt(words[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read %s: %w", path, err)
			}
			return n, nil
		}
	}
	return 0, nil
}

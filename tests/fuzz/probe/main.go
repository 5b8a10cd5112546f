//go:build linux

// Command probe asks the kernel that it runs on the questions of package tree. The tests of tests/fuzz run it in a sandbox
// and on the host's own kernel.
//
//	probe run FIRST COUNT NAMES [LEAD...]   the cases of COUNT seeds; answers go to /workspace/answers.json
//	probe file NAMES                        the cases in /workspace/cases.json
//	probe enter ROOT UID COMMAND...         as root, in new mount and PID namespaces: a root of its own, then COMMAND
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"

	"github.com/silk-sandbox/silk/tests/fuzz/tree"
)

func init() { runtime.LockOSThread() } // the process's first thread

func main() {
	if slices.Contains(os.Environ(), tree.EnvChild) {
		tree.Child()
		return
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) >= 4 && args[0] == "run":
		first, err1 := strconv.ParseUint(args[1], 10, 64)
		count, err2 := strconv.ParseUint(args[2], 10, 64)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		return ask(args[3] == "names", count, func(i uint64) tree.Case { return tree.New(first+i, tree.Config{Leads: args[4:]}) })
	case len(args) == 2 && args[0] == "file":
		data, err := os.ReadFile("/workspace/cases.json")
		if err != nil {
			return err
		}
		var cases []tree.Case
		if err := json.Unmarshal(data, &cases); err != nil {
			return err
		}
		return ask(args[1] == "names", uint64(len(cases)), func(i uint64) tree.Case { return cases[i] })
	case len(args) >= 4 && args[0] == "enter":
		return enter(args[1], args[2], args[3:])
	}
	return errors.New("unknown arguments")
}

// ask runs cases. The process has one thread that runs code, and collects garbage only between cases: a question may
// fork it.
func ask(names bool, count uint64, next func(uint64) tree.Case) (err error) {
	runtime.GOMAXPROCS(1)
	debug.SetGCPercent(-1)
	syscall.Umask(0o022)
	file, err := os.OpenFile("/workspace/answers.json", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(file, 1<<20)
	defer func() { err = errors.Join(err, w.Flush(), file.Close()) }()
	marks := 0
	r := tree.Runner{Probe: "/workspace/probe", Names: names, Mark: func() {
		_, _ = syscall.Open(tree.Marks+strconv.Itoa(marks), syscall.O_RDONLY|syscall.O_CLOEXEC, 0) // shows in the events
		marks++
	}}
	enc := json.NewEncoder(w)
	for i := range count {
		if i%50 == 49 {
			runtime.GC()
		}
		answers, err := r.Run(next(i))
		if err != nil {
			return fmt.Errorf("case %d: %w", i, err)
		}
		if err := enc.Encode(answers); err != nil {
			return err
		}
	}
	return nil
}

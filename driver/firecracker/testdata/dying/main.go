// Command dying is the first process of a machine in which the agent is ended at a random moment: the kernel crashes. It has the agent inside, and
// becomes it when it has started the process that waits for the moment.
package main

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"time"
)

//go:embed silk-guest
var agent []byte

// latest is when it dies at the latest. An agent on an idle host has a program after some three seconds.
const latest = 10 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "dying:", err)
		os.Exit(1) // of the first process: a crash as well
	}
}

func run() error {
	const proc = "/dying"
	if os.Getpid() != 1 {
		time.Sleep(rand.N(latest))
		return os.WriteFile(proc+"/sysrq-trigger", []byte("c"), 0)
	}
	if err := os.Mkdir(proc, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount("proc", proc, "proc", 0, ""); err != nil {
		return err
	}
	if err := os.WriteFile("/agent", agent, 0o500); err != nil {
		return err
	}
	if _, err := syscall.ForkExec("/init", []string{"dying"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2}}); err != nil {
		return err
	}
	return syscall.Exec("/agent", []string{"/init"}, nil)
}

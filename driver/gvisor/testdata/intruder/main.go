// Command intruder stands in a sandbox kernel's place, as if somebody had taken that over and there were no seccomp
// filter: it says what a kernel says, and tries to get out. Tests build it, static, for what is behind package stage.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/internal/packet"
)

const engineFD = 3

// targets are things of the host that the test has put there.
type targets struct {
	Files    []string // that anybody may read on the host
	Pid      int      // of a process
	Abstract string   // name of a socket that listens, without the leading zero byte
	TCP      int      // port on 127.0.0.1 that listens
	Shm      int      // key of a System V segment that anybody may attach
	Key      string   // description of a key of type user in the engine's session keyring
	Stay     string   // if not empty, try to outlive the engine in this way
}

func main() {
	must(packet.Send(engineFD, wire.Message{Kind: wire.Hello, Version: wire.Version}))
	_, err := packet.Receive(engineFD, new(wire.Placed))
	must(err)
	var req wire.Request
	fds, err := packet.Receive(engineFD, &req)
	must(err)
	var names []string
	for _, r := range rules.All() {
		names = append(names, r.Name)
	}
	must(packet.Write(engineFD, wire.Message{Kind: wire.Armed, Rules: names, Points: wire.Points()}))
	for buf := make([]byte, 4096); ; {
		if n, err := unix.Read(fds[4], buf); n <= 0 {
			must(err)
			break
		}
	}
	var all targets
	for _, e := range req.Env {
		if text, ok := strings.CutPrefix(e, "INTRUDER="); ok {
			must(json.Unmarshal([]byte(text), &all))
		}
	}
	if all.Stay != "" {
		stay(all.Stay)
	}
	must(packet.Write(engineFD, wire.Message{Kind: wire.Started}))
	for all.Stay != "" { // select would be a deadlock to the Go runtime
		_ = unix.Pause()
	}
	seen := map[string]string{}
	for name, try := range tries(all, fds) {
		seen[name] = try()
	}
	out := os.NewFile(uintptr(fds[2]), "stdout")
	must(json.NewEncoder(out).Encode(seen))
	must(packet.Write(engineFD, wire.Message{Kind: wire.Exit}))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "intruder:", err)
		os.Exit(1)
	}
}

// word is how a try ended.
func word(err error) string {
	if err == nil {
		return "done"
	}
	return err.Error()
}

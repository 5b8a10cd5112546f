package docker

import (
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/watch"
)

// callOf is the system call of an event.
func callOf(e watch.Event) string {
	if e.Syscall != "" {
		return e.Syscall
	}
	return string(e.Kind)
}

// refusedBy says which rule has refused the call of an event with the errno that the event has. What the supervisor refuses it counts
// itself: the opening and executing of files.
func refusedBy(e watch.Event, noSpawn bool) (rule string, ok bool) {
	call := callOf(e)
	for _, r := range rules.All() {
		if r.Errno == e.Result && slices.Contains(r.Calls, call) && (r.Name != rules.ProcessSpawn || noSpawn) {
			return r.Name, true
		}
	}
	return "", false
}

// forbiddenBy says which rule a call has broken that the filter answered with bpf.Forbidden.
func forbiddenBy(e watch.Event) *driver.Violation {
	call := callOf(e)
	v := &driver.Violation{Rule: rules.FileUnlisted, Syscall: call, Argument: e.Argument} // not reached: the last one is of a rule of the table
	for _, r := range rules.All() {
		if r.Action == rules.Kill && slices.Contains(r.Calls, call) {
			v.Rule = r.Name
			break
		}
	}
	if call == "socket" {
		v.Rule = socketRule(e.Argument)
	}
	return v
}

// socketRule is the rule about a socket, by what an event says of it: "AF_INET SOCK_RAW 1".
func socketRule(argument string) string {
	family, rest, _ := strings.Cut(argument, " ")
	kind, _, _ := strings.Cut(rest, " ")
	switch {
	case family == "AF_PACKET":
		return rules.NetworkPacket
	case family == "AF_VSOCK":
		return rules.NetworkVsock
	case kind == "SOCK_RAW":
		return rules.NetworkRaw
	}
	return rules.NetworkInet
}

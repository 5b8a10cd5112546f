package selftest

import "github.com/silk-sandbox/silk/driver/rules"

// output is what a run can say about itself.
func output() []Row {
	return class(
		"output", "", nil,
		Row{Name: "more than is kept", Attack: do("flood", "12"), Want: Want{Outcome: "ok", Flag: "output_truncated"}},
		Row{Name: "what terminals obey", Attack: do("escapes"), Want: Want{Outcome: "ok", Text: "\x1b]0;owned\x07\x1b[2J\x1b[6n"}},
		Row{Name: "a forged outcome", Attack: do("forge"), Want: Want{Outcome: "failed", Exit: 5}},
		Row{Name: "the exit status of a violation", Attack: do("exit", "159"), Want: Want{Outcome: "failed", Exit: 159}},
		Row{Name: "the exit status of a timeout", Attack: do("exit", "124"), Want: Want{Outcome: "failed", Exit: 124}},
		Row{Name: "the exit status of too much memory", Attack: do("exit", "137"), Want: Want{Outcome: "failed", Exit: 137}},
		Row{Name: "the signal of too much memory", Attack: do("die", "9"), Want: Want{Outcome: "failed", Signal: 9}},
		Row{Name: "escape codes in a forbidden name", Rule: rules.FileRootHome, Attack: do("read-escape"), Behind: behind(kernel("ENOENT", notThere))},
		Row{Name: "closed channels", Attack: do("close"), Want: Want{Outcome: "ok"}},
	)
}

// afterwards is what must be gone when a run is over.
func afterwards() []Row {
	return class(
		"after the end", "", nil,
		Row{Name: "marks for the next run", Attack: do("marks"), Times: 2, Want: Want{Errno: "0"}},
		Row{Name: "a daemon that heeds nobody", Attack: do("daemon", "{variable}-stays"), Want: Want{Errno: "0"}},
		Row{Name: "traced by whoever reaps it", Attack: do("trace-me"), Want: Want{Outcome: "ok"}},
		Row{Name: "thousands of files", Attack: do("many", "/workspace", "2000"), Artifact: true, Want: Want{Errno: "0"}},
		Row{Name: "links out of the workspace", Attack: do("links-out"), Artifact: true, Want: Want{Errno: "0"}},
		Row{Name: "names that people misread", Attack: do("file-names"), Artifact: true, Want: Want{Errno: "0"}},
		Row{Name: "a file that seems to have a terabyte", Attack: do("sparse", "0x10000000000"), Artifact: true, Want: Want{Errno: "0|EFBIG"}},
		Row{Name: "a change of what was copied in", Attack: do("change", "copied"), Want: Want{Errno: "0"}},
	)
}

// visibility is what a program must not learn of the host.
func visibility() []Row {
	return class(
		"what is seen of the host", "", nil,
		Row{Name: "its environment", Attack: do("environment", "{variable}"), Want: Want{Errno: "0"}},
		Row{Name: "its name", Attack: do("host-name", "{host-name}"), Want: Want{Errno: "0"}},
		Row{Name: "its users: the program is not root", Attack: do("who"), Want: Want{Errno: "0"}},
		Row{Name: "its processes", Attack: do("processes"), Want: Want{Errno: "0"}},
		Row{Name: "its files", Attack: do("read", "{dir}/secret"), Want: Want{Errno: "ENOENT"}},
		Row{Name: "silk's records", Attack: do("read", "{dir}/state/silk.db"), Want: Want{Errno: "ENOENT"}},
		Row{Name: "its files, by stat", Attack: do("exists", "{dir}"), Want: Want{Errno: "ENOENT"}},
		Row{Name: "its paths", Attack: do("grep", "{dir}", "/proc/self/mountinfo", "/proc/self/maps", "/proc/1/cmdline", "/proc/cmdline", "/proc/self/cgroup"), Want: Want{Errno: "0"}},
		Row{Name: "its services, by path", Attack: do("unix-connect", "{dir}/socket", "/run/docker.sock", "/run/containerd/containerd.sock", "/run/dbus/system_bus_socket"), Want: Want{Errno: "ENOENT|ECONNREFUSED"}},
		Row{Name: "its services, by abstract name", Attack: do("unix-connect", "@{dir}/socket"), Want: Want{Errno: "ECONNREFUSED"}},
		Row{Name: "descriptors of silk's", Attack: do("descriptors"), Want: Want{Errno: "0"}},
	)
}

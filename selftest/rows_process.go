package selftest

import (
	"time"

	"github.com/silk-sandbox/silk/driver/rules"
	"github.com/silk-sandbox/silk/profile"
)

// oneProcess is a run that may have threads, but no second process or program.
func oneProcess() []Row {
	rows := class(
		"one process only", rules.ProcessSpawn, happens,
		Row{Name: "fork(2)", Attack: do("process", "fork")},
		Row{Name: "vfork(2)", Attack: do("process", "vfork")},
		Row{Name: "clone(2)", Attack: do("process", "clone")},
		Row{Name: "clone3(2)", Rule: "process.clone3", Attack: do("process", "clone3"), Behind: happens},
		Row{Name: "a program started as programs do", Attack: do("spawn", program)},
		Row{Name: "execve(2)", Attack: do("exec", program)},
		Row{Name: "execveat(2) of a descriptor", Attack: do("exec-fd", program)},
		Row{Name: "a program without a name", Attack: do("exec-memfd"), Needs: []string{NeedsMemfd}},
		Row{Name: "threads, which are ordinary", Attack: do("threads-free"), Want: Want{Effect: true}},
	)
	for i := range rows {
		rows[i].NoSpawn = true
	}
	return rows
}

// execution is about what may be executed, and from where.
func execution() []Row {
	const notAProgram = "it is no program"
	return class(
		"execution", "", happens,
		Row{Name: "a program in /tmp", Attack: do("exec-copy", "/tmp"), Want: Want{Errno: "EACCES"}},
		Row{Name: "a program in /dev/shm", Attack: do("exec-copy", "/dev/shm"), Want: Want{Errno: "EACCES"}},
		Row{Name: "code mapped from /tmp", Attack: do("map-exec", "/tmp"), Want: Want{Errno: "EPERM|EACCES"}},
		Row{Name: "code mapped from /dev/shm", Attack: do("map-exec", "/dev/shm"), Want: Want{Errno: "EPERM|EACCES"}},
		Row{Name: "a program in /tmp, by descriptor", Attack: do("exec-opened", "/tmp"), Want: Want{Errno: "EACCES"}},
		Row{Name: "code mapped from /tmp and made executable later", Attack: do("map-exec", "/tmp", "later"), Want: Want{Errno: "EPERM|EACCES"}},
		Row{Name: "a forbidden file", Rule: rules.FileAccounts, Attack: do("exec", "/etc/passwd"), Behind: unlistedThen(kernel("EACCES", notAProgram))},
		Row{Name: "a link to a forbidden file", Rule: rules.FileAccounts, Attack: do("exec-link", "/etc/passwd"), Behind: unlistedThen(kernel("EACCES", notAProgram))},
		Row{Name: "a descriptor of a forbidden file", Rule: rules.FileAccounts, Attack: do("exec-fd", "/etc/passwd"), Behind: unlistedThen(kernel("EACCES", notAProgram))},
		Row{Name: "a script that a forbidden file interprets", Rule: rules.FileAccounts, Attack: do("exec-script", "/etc/passwd"), Behind: unlistedThen(kernel("EACCES", notAProgram))},
		Row{Name: "a program that a forbidden file loads", Rule: rules.FileAccounts, Attack: do("exec-elf", "/etc/passwd"), Behind: unlistedThen(kernel("EACCES", notAProgram))},
		Row{Name: "a program in the workspace, which is ordinary", Rule: rules.FileWorkspace, Attack: do("exec-copy", "/workspace"), Behind: behind(Layer{Want: unstarted, Why: programGone})},
	)
}

// raceRounds is how often a race is run. Before the policy looked at the object that it opens, one in twelve was won.
const raceRounds = "3000"

// races change something while the kernel looks at it.
func races() []Row {
	const unlistedFile = "/proc/cgroups"
	rows := class(
		"races", rules.FileUnlisted, happens,
		Row{Name: "a link that is swapped", Attack: do("race-link", raceRounds, unlistedFile)},
		Row{Name: "a name that is rewritten", Attack: do("race-name", raceRounds, unlistedFile)},
		Row{Name: "a name that another process rewrites", Attack: do("race-shared", raceRounds, unlistedFile)},
		Row{Name: "a directory on the way that is swapped", Attack: do("race-dir", raceRounds, unlistedFile)},
		Row{Name: "a descriptor that is replaced", Attack: do("race-dirfd", raceRounds, unlistedFile)},
		Row{Name: "a descriptor that is replaced while it is opened again", Attack: do("race-fd", raceRounds, unlistedFile)},
		Row{Name: "a working directory that changes", Attack: do("race-cwd", raceRounds, unlistedFile)},
		Row{Name: "a link to a forbidden file that is swapped", Rule: rules.FileAccounts, Attack: do("race-link", raceRounds, "/etc/passwd"), Behind: unlistedThen(Layer{Effect: true})},
		Row{Name: "a file that is made through a swapped link", Rule: rules.FileRootHome, Attack: do("race-creat", raceRounds, "/root/attack"), Behind: behind(kernel("EACCES|EROFS", readOnlyRoot))},
		Row{Name: "a program that is swapped for one in /tmp", Attack: do("race-exec", "40", "/tmp/copy"), Want: Want{Errno: "EACCES"}},
		Row{Name: "an address that is rewritten", Rule: rules.NetworkOutside, Network: profile.NetworkLoopback, Attack: do("race-address", raceRounds), Behind: behind(kernel("ENETUNREACH", noRoute))},
		Row{Name: "a message whose address is replaced", Rule: rules.NetworkOutside, Network: profile.NetworkLoopback, Attack: do("race-message", raceRounds), Behind: behind(kernel("ENETUNREACH", noRoute))},
	)
	for i := range rows {
		rows[i].Limits.CPUs = 2
	}
	return rows
}

// little is the memory of runs that use all they have.
const little = 96 << 20

// memory is everything that takes memory, whatever it is called.
func memory() []Row {
	oom := Want{Outcome: "oom"}
	rows := class(
		"memory", "", nil,
		Row{Name: "of a process", Attack: do("memory"), Want: oom},
		Row{Name: "of a child", Attack: do("in-child", "memory"), Want: oom},
		Row{Name: "of many children", Attack: do("memory-many"), Want: oom},
		Row{Name: "of a memfd", Attack: do("memfd"), Want: oom, Needs: []string{NeedsMemfd}},
		Row{Name: "of a System V segment", Attack: do("shared"), Want: Want{Outcome: "oom|ok"}},
		Row{Name: "of page tables", Attack: do("page-tables"), Limits: profile.Limits{MemoryBytes: 32 << 20}, Want: oom},
		Row{Name: "of files in /tmp", Attack: do("fill", "/tmp", "64"), Limits: profile.Limits{MemoryBytes: 32 << 20}, Want: oom},
		Row{Name: "reserved in a file", Rule: rules.ResourceFallocate, Attack: do("fallocate"), Behind: behind(Layer{Want: oom, Why: "the limit of memory"}), Needs: []string{NeedsSentry}},
		Row{Name: "of an answer about memory", Rule: rules.ResourceMincore, Attack: do("mincore"), Behind: happens, Needs: []string{NeedsSentry}},
	)
	for i := range rows {
		if rows[i].Limits.MemoryBytes == 0 {
			rows[i].Limits.MemoryBytes = little
		}
	}
	return rows
}

// kernelMemory is what takes memory of the sandbox's kernel instead of the program's. Some of it has limits of its own; all of
// it together must end in no other way than too much memory does.
func kernelMemory() []Row {
	ends := Want{Outcome: "ok|oom"}
	rows := class(
		"memory of the sandbox's kernel", "", nil,
		Row{Name: "attributes of files", Attack: do("attributes"), Want: ends},
		Row{Name: "links to long names", Attack: do("symlinks"), Want: ends},
		Row{Name: "locks", Attack: do("locks"), Want: ends},
		Row{Name: "mappings", Attack: do("mappings"), Want: ends},
		Row{Name: "signals that nobody takes", Attack: do("signals"), Want: ends},
		Row{Name: "descriptors that nobody takes", Attack: do("in-flight"), Want: ends},
		Row{Name: "messages that nobody takes", Attack: do("messages"), Want: ends},
		Row{Name: "events that nobody reads", Attack: do("events"), Want: ends},
		Row{Name: "buffers of sockets", Attack: do("buffers"), Want: ends},
		Row{Name: "pipes", Attack: do("pipes"), Want: ends},
		Row{Name: "semaphores", Attack: do("queues"), Want: ends},
	)
	for i := range rows {
		rows[i].Limits.MemoryBytes = little
	}
	return rows
}

// counts are the limits of everything that can be counted.
func counts() []Row {
	return class(
		"numbers", "", nil,
		Row{Name: "a fork bomb", Attack: do("fork-bomb"), Want: Want{Errno: "EAGAIN", Flag: "pids_limit_hit"}},
		Row{Name: "threads", Attack: do("threads"), Want: Want{Errno: "EAGAIN", Flag: "pids_limit_hit"}},
		Row{Name: "descriptors", Attack: do("files"), Want: Want{Errno: "EMFILE"}},
		Row{Name: "watches of files", Attack: do("watches"), Want: Want{Errno: "EMFILE|ENOSPC"}},
		Row{Name: "timers", Attack: do("timers", "5000"), Want: Want{Errno: "0|EAGAIN|ENOMEM"}},
		Row{Name: "addresses", Attack: do("reserve"), Want: Want{Errno: "ENOMEM"}},
		Row{Name: "locked memory", Attack: do("lock"), Want: Want{Errno: "EPERM|ENOMEM|EAGAIN"}},
		Row{Name: "a full workspace", Attack: do("fill", "/workspace", "64"), Limits: profile.Limits{WorkspaceBytes: 32 << 20}, Want: Want{Errno: "ENOSPC", Flag: "disk_full"}},
		Row{Name: "a full /tmp", Attack: do("fill", "/tmp", "128"), Want: Want{Errno: "ENOSPC", Flag: "tmp_full"}},
		Row{Name: "a full /dev/shm", Attack: do("fill", "/dev/shm", "128"), Want: Want{Errno: "ENOSPC", Flag: "tmp_full"}},
		Row{Name: "directories in directories", Attack: do("deep", "3000"), Artifact: true, Want: Want{Errno: "0|ENAMETOOLONG"}},
	)
}

// endless is what never ends by itself.
func endless() []Row {
	rows := class(
		"time", "", nil,
		Row{Name: "the processor without end", Attack: do("spin"), Want: Want{Outcome: "timeout"}},
		Row{Name: "waiting, without heeding signals", Attack: do("sleep"), Want: Want{Outcome: "timeout"}},
		Row{Name: "everything stopped", Attack: do("stop"), Want: Want{Outcome: "timeout"}},
	)
	for i := range rows {
		rows[i].Limits.Timeout = 2 * time.Second
	}
	return rows
}

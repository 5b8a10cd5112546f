// Package launch is the small program that a container of the docker driver begins with, and the words that it and silk
// exchange. It is written in C without a library (launch.c), so that it starts in a millisecond, where a Go program takes
// twelve; it is committed with its source, as the BPF objects of watch/bpf are, because users have no compiler.
//
// In the container it is process 1 and one child. The child waits for a message of silk's, the release: descriptors of the
// channels and a plan, a file in which everything is decided. It then restricts itself (Landlock, resource limits, a
// seccomp filter), hands silk the filter's listener, and becomes the program. Process 1 never runs anything else: it reaps,
// ends what is left when the program has ended, and says how that ended, on a socket which nobody else in the container has.
//
// On the host the same file is the reaper of a run: see [Reap].
//
// The package holds no policy and makes no file of its own; driver/docker does.
package launch

import (
	"bytes"
	_ "embed" // the program
	"encoding/binary"
	"fmt"
)

//go:generate go run ./generate

// Program is the executable, for Linux on amd64.
//
//go:embed launch
var Program []byte

// Dir is the directory in a container that has the launcher, called launch, and the socket that it knocks at, called gate.
const Dir = "/.silk"

// Version is that of what is agreed here. The launcher says which one it has.
const Version = 1

// What the launcher tells: two numbers of 32 bits, of which the first is one of these.
const (
	Ruler   = 1 // process 1 is there; then the version
	Starter = 2 // the process that will be the program is there; then the version
	Ended   = 3 // the program has ended, and everybody else too; then its status as wait(2) has it
	Failed  = 4 // it did not become the program; the number of the step in the upper bits, then the errno
	Listens = 5 // beside it is the listener of its filter; from then on silk answers
)

// MessageBytes is the length of what the launcher tells.
const MessageBytes = 8

// Said takes apart what the launcher tells.
func Said(b []byte) (what, step int, number uint32, err error) {
	if len(b) != MessageBytes {
		return 0, 0, 0, fmt.Errorf("the launcher said %d bytes, not %d", len(b), MessageBytes)
	}
	first := binary.LittleEndian.Uint32(b)
	return int(first & 0xff), int(first >> 8), binary.LittleEndian.Uint32(b[4:]), nil
}

// StepExec is the last step, after which the program runs: its failure is the command's.
const StepExec = 14

// Steps say in words what a step does.
var Steps = [...]string{
	1: "read the plan", 2: "make a session", 3: "take stdin", 4: "take stdout", 5: "take stderr", 6: "take the terminal", 7: "enter the working directory",
	8: "set resource limits", 9: "place arguments", 10: "give up privileges", 11: "restrict files (Landlock)", 12: "restrict system calls (seccomp)",
	13: "hand over the listener", StepExec: "execute the command",
}

// Descriptors beside the release, in this order: the plan, stdin, stdout, stderr, the Landlock ruleset.
const Descriptors = 5

// Release is the message that lets the process go: the size of the plan.
func Release(plan []byte) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(len(plan))) }

// Reap is the first argument of the launcher as a run's reaper. The second is the path of the engine's socket, the third what it
// is sent if silk dies. Descriptor 0 is a packet socket to silk, on which comes a word with a pidfd beside it, and in the end [Well].
const Reap = "reap"

// Words to a reaper.
var (
	Watch = binary.LittleEndian.AppendUint64(nil, 1)
	Well  = binary.LittleEndian.AppendUint64(nil, 0x6c6c6577)
)

// Limit is a resource limit, setrlimit(2).
type Limit struct{ Resource, Soft, Hard uint64 }

// Region is memory of the process that will be the program: Bytes at an address, in pages of their own.
type Region struct {
	At    uint64
	Bytes []byte
}

// Plan is what a process becomes.
type Plan struct {
	Terminal bool // stdin is a terminal, to be the controlling one
	Dir      string
	Filter   []byte // of seccomp: an array of struct sock_filter, 8 bytes each
	Limits   []Limit
	Regions  []Region

	Path, Argv, Envp uint64 // addresses in Regions: the arguments of execve

	Message    uint64 // address in Regions: a struct msghdr that sends one descriptor
	ListenerAt uint64 // address in Regions: where in it the descriptor belongs
}

const (
	planBytes = 88 // sizeof(struct plan)
	pageBytes = 4096
)

// Encode lays the plan out as launch.h has it.
func (p Plan) Encode() []byte {
	var tail bytes.Buffer // what the offsets lead to
	le := binary.LittleEndian
	at := func() uint64 {
		for tail.Len()%8 != 0 {
			tail.WriteByte(0)
		}
		return uint64(planBytes + tail.Len())
	}
	dir := at()
	tail.WriteString(p.Dir + "\x00")
	filter := at()
	tail.Write(p.Filter)
	limits := at()
	for _, l := range p.Limits {
		tail.Write(words(l.Resource, l.Soft, l.Hard))
	}
	from := make([]uint64, len(p.Regions))
	for i, g := range p.Regions {
		from[i] = at()
		tail.Write(g.Bytes)
	}
	regions := at()
	for i, g := range p.Regions {
		first := g.At &^ (pageBytes - 1)
		end := (g.At + uint64(len(g.Bytes)) + pageBytes - 1) &^ (pageBytes - 1)
		tail.Write(words(first, end-first, g.At-first, from[i], uint64(len(g.Bytes))))
	}
	flags := uint32(0)
	if p.Terminal {
		flags = 1
	}
	head := le.AppendUint32(nil, flags)
	head = le.AppendUint32(head, uint32(len(p.Filter)/8))
	head = append(head, words(dir, filter)...)
	head = le.AppendUint32(head, uint32(len(p.Limits)))
	head = le.AppendUint32(head, uint32(len(p.Regions)))
	head = append(head, words(limits, regions, p.Path, p.Argv, p.Envp, p.Message, p.ListenerAt)...)
	return append(head, tail.Bytes()...)
}

func words(all ...uint64) (b []byte) {
	for _, w := range all {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return b
}

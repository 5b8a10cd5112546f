// Package tree is a file tree and questions about paths in it, asked of whatever kernel the program runs on: a [Case] is
// made from a seed, [Run] builds its tree below /workspace/w and /tmp/w and asks. The same case run in a sandbox and on
// the host's own kernel must have the same answers, but for what policy refuses.
package tree

// Places that a case lives in. Nothing else is changed.
const (
	Work  = "/workspace/w"
	Other = "/tmp/w"
)

// Marks is how names begin that are opened before each question, with its number, to be seen in a sandbox's events.
const Marks = "/workspace/mark-"

// Case is a tree, what is open in it, and questions.
type Case struct {
	Seed      uint64
	Steps     []Step
	Questions []Question
}

// Kind is what a step does.
type Kind string

// Kinds of steps.
const (
	Dir     Kind = "dir"
	File    Kind = "file"    // its content is its name and the number of the step
	Script  Kind = "script"  // a file that Target interprets, the probe if there is none
	Program Kind = "program" // a hard link to a copy of the probe
	Link    Kind = "link"    // a symbolic link to Target
	Hard    Kind = "hard"    // a hard link to Target
	Fifo    Kind = "fifo"
	Chmod   Kind = "chmod"
	Remove  Kind = "remove"
	Open    Kind = "open" // a descriptor with the number FD
	Chdir   Kind = "chdir"
)

// Step makes a part of a tree. One that fails is passed over: on both kernels, which is compared too.
type Step struct {
	Kind   Kind
	Name   []byte
	Target []byte `json:",omitempty"`
	Mode   uint32 `json:",omitempty"`
	FD     int    `json:",omitempty"`
	Flags  int    `json:",omitempty"`
}

// Opens says whether a step opens its name, and with which flags.
func (s Step) Opens() (flags int, ok bool) {
	switch s.Kind {
	case Open:
		return s.Flags, true
	case File, Script:
		return OWrite | OCreate | OExclusive, true
	}
	return 0, false
}

// Question is one open(2) or execve(2).
type Question struct {
	Exec  bool `json:",omitempty"`
	DirFD int  // NoDir: relative to the working directory
	Name  []byte
	Flags int `json:",omitempty"` // of openat(2), or of execveat(2); an exec with NoDir and no flags is execve(2)
}

// NoDir is AT_FDCWD of fcntl.h.
const NoDir = -100

// Answers are those of one case.
type Answers struct {
	Steps   []int    // errnos
	Opened  []Answer `json:",omitempty"` // of the steps that open something, only the names, if asked for; others have none
	Answers []Answer
}

// Answer is what a kernel said to a question.
type Answer struct {
	Errno int     `json:",omitempty"`
	Path  []byte  `json:",omitempty"` // of what was opened, or of the program that ran: the kernel's own name for it
	Type  uint32  `json:",omitempty"` // file type, as in st_mode
	Text  []byte  `json:",omitempty"` // its content, or the arguments of the program
	Name  []byte  `json:",omitempty"` // absolute name that the question was about, if asked for
	Way   Way     `json:",omitzero"`  // how the walk to Name went
	Then  []Named `json:",omitempty"` // the interpreters of a script that was executed, one after the other
}

// Named is a name and the way to it.
type Named struct {
	Name []byte
	Way  Way
}

// Way is what lay on the way to a name.
type Way struct {
	Link       []byte `json:",omitempty"` // the last link of procfs to an object, and the names that were left at it
	Last       bool   `json:",omitempty"` // that link was the last name
	LinkFD     bool   `json:",omitempty"` // it led to a symbolic link (a descriptor with O_PATH and O_NOFOLLOW)
	FileFD     bool   `json:",omitempty"` // it led to what is no directory
	Gone       bool   `json:",omitempty"` // the walk was in a directory that has been removed
	SlashFinal bool   `json:",omitempty"` // the name, or what a link said, ended in a slash
	Dots       bool   `json:",omitempty"` // the walk failed before a "..": where that would have led, nobody knows
	Unreadable bool   `json:",omitempty"` // what is there may not be read
	Links      int    `json:",omitempty"` // links of all kinds

	Interpreter []byte `json:",omitempty"` // what a script that is executed names
}

// Linux's numbers (asm-generic/fcntl.h, x86), which other systems do not have.
const (
	OAccess    = 0o3
	OWrite     = 0o1
	OReadWrite = 0o2
	OCreate    = 0o100
	OExclusive = 0o200
	OTruncate  = 0o1000
	OAppend    = 0o2000
	ONonblock  = 0o4000
	ODirectory = 0o200000
	ONoFollow  = 0o400000
	OCloseExec = 0o2000000
	OPath      = 0o10000000

	AtNoFollow  = 0x100
	AtEmptyPath = 0x1000
)

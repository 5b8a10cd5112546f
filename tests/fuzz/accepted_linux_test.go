package fuzz

import (
	"bytes"
	"syscall"

	"github.com/silk-sandbox/silk/tests/fuzz/tree"
)

// same is the reason when there is no difference.
const same = "same"

// difference is one between gVisor's kernel, with silk's policy, and Linux that lets nothing out: what was opened in the
// end is judged whatever the way there was.
type difference struct {
	reason string
	is     func(q tree.Question, want, got tree.Answer) bool
}

// errnoDifferences are about answers.
var errnoDifferences = []difference{
	{"O_CREAT with O_DIRECTORY is EINVAL since Linux 6.4; gVisor looks at the name", func(q tree.Question, want, _ tree.Answer) bool {
		return fails(want, syscall.EINVAL) && has(q, tree.OCreate|tree.ODirectory)
	}},
	{"gVisor asks who may write before it asks whether it is a directory", func(q tree.Question, want, got tree.Answer) bool {
		return fails(want, syscall.EISDIR) && fails(got, syscall.EACCES)
	}},
	{"gVisor asks who may write before it asks how long the last name is", func(_ tree.Question, want, got tree.Answer) bool {
		return fails(want, syscall.ENAMETOOLONG) && fails(got, syscall.EACCES)
	}},
	{"gVisor looks at a name that ends in a slash before it refuses to make it", func(q tree.Question, want, got tree.Answer) bool {
		return fails(want, syscall.EISDIR) && got.Errno != 0 && has(q, tree.OCreate) && want.Way.SlashFinal
	}},
	{"gVisor makes files in directories that have been removed", func(q tree.Question, want, got tree.Answer) bool {
		return fails(want, syscall.ENOENT) && want.Way.Gone
	}},
	{"gVisor follows, or refuses, the link that a descriptor with O_PATH and O_NOFOLLOW holds", func(q tree.Question, want, got tree.Answer) bool {
		return want.Way.LinkFD
	}},
	{"gVisor passes over a slash behind a link of procfs to a file", func(q tree.Question, want, got tree.Answer) bool {
		return (fails(want, syscall.ENOTDIR) || fails(want, syscall.EISDIR)) && want.Way.FileFD && want.Way.SlashFinal
	}},
	{"gVisor does not follow a link of procfs with a slash behind it in spite of O_NOFOLLOW", func(q tree.Question, want, got tree.Answer) bool {
		return (fails(got, syscall.ELOOP) || fails(got, syscall.ENOTDIR) && has(q, tree.ODirectory)) && has(q, tree.ONoFollow) && want.Way.Last && want.Way.SlashFinal
	}},
	// Linux counts them all, and counts on when it has to begin again (fs/namei.c, path_openat without LOOKUP_RCU).
	{"gVisor does not count every link of procfs among the 40 of a path, and none twice", func(q tree.Question, want, got tree.Answer) bool {
		return fails(want, syscall.ELOOP) && want.Way.Links >= 20
	}},
	{"gVisor does not execute what may not be read", func(q tree.Question, want, got tree.Answer) bool {
		return q.Exec && want.Way.Unreadable && fails(got, syscall.EACCES)
	}},
	{"gVisor holds AT_SYMLINK_NOFOLLOW against the interpreter of a script, too", func(q tree.Question, want, got tree.Answer) bool {
		return q.Exec && q.Flags&tree.AtNoFollow != 0 && len(want.Then) > 0 && fails(got, syscall.ELOOP)
	}},
	// It does not always keep O_NOFOLLOW with O_PATH: the descriptor holds what the link led to, and that is judged.
	{"an execveat of a descriptor that holds a link", func(q tree.Question, want, got tree.Answer) bool {
		return q.Exec && len(q.Name) == 0 && fails(want, syscall.ELOOP)
	}},
	{"a name in procfs may be too long in gVisor", func(q tree.Question, want, got tree.Answer) bool {
		return fails(want, syscall.ENOENT) && fails(got, syscall.ENAMETOOLONG) && bytes.HasPrefix(want.Name, []byte("/proc/"))
	}},
	{"nothing can be made in procfs", func(q tree.Question, want, got tree.Answer) bool {
		return fails(want, syscall.ENOENT) && (fails(got, syscall.EPERM) || fails(got, syscall.EACCES)) && has(q, tree.OCreate) && bytes.HasPrefix(want.Name, []byte("/proc/"))
	}},
}

// nameDifferences are about names in events.
var nameDifferences = []difference{
	{"what fails at a link of procfs to an object, or is executed by it, is named by the link", func(q tree.Question, want, got tree.Answer) bool {
		return (got.Errno != 0 || q.Exec) && want.Way.Link != nil && sameName(want.Way.Link, got.Name)
	}},
	{"an execveat of a descriptor has no name", func(q tree.Question, want, got tree.Answer) bool {
		return q.Exec && len(q.Name) == 0
	}},
	{"with O_CREAT, a link with a slash behind it is followed to be judged", func(q tree.Question, want, got tree.Answer) bool {
		return got.Errno != 0 && has(q, tree.OCreate) && want.Way.SlashFinal
	}},
	{"gVisor follows, or refuses, the link that a descriptor with O_PATH and O_NOFOLLOW holds", func(q tree.Question, want, got tree.Answer) bool {
		return want.Way.LinkFD
	}},
	{"a path with too many links may be given up at another of them", func(q tree.Question, want, got tree.Answer) bool {
		return want.Way.Links >= 38 || fails(want, syscall.ELOOP) && want.Way.Links >= 20
	}},
}

func fails(a tree.Answer, errno syscall.Errno) bool { return a.Errno == int(errno) }

func has(q tree.Question, flags int) bool { return !q.Exec && q.Flags&flags == flags }

// accepted says why the answers to a question may differ as they do, or "" if they may not.
func accepted(q tree.Question, want, got tree.Answer) string {
	reason := same
	if !want.Equal(got) {
		if reason = reasonOf(errnoDifferences, q, want, got); reason == "" {
			return ""
		}
	}
	if got.Name == nil || sameName(want.Name, got.Name) || got.Errno == 0 && !q.Exec && sameName(undeleted(got.Path), got.Name) {
		return reason
	}
	return reasonOf(nameDifferences, q, want, got)
}

func reasonOf(list []difference, q tree.Question, want, got tree.Answer) string {
	for _, d := range list {
		if d.is(q, want, got) {
			return d.reason
		}
	}
	return ""
}

// acceptedStep says whether a tree may come to be a little differently. way is what lay on the way of one that opens.
func acceptedStep(s tree.Step, way tree.Way, want, got syscall.Errno) bool {
	if flags, ok := s.Opens(); ok {
		q := tree.Question{Flags: flags, Name: s.Name}
		return reasonOf(errnoDifferences, q, tree.Answer{Errno: int(want), Way: way}, tree.Answer{Errno: int(got)}) != ""
	}
	switch { // several things are wrong, and are looked at in another order
	case s.Kind == tree.Remove && (want == syscall.ENOENT && got == syscall.EACCES || want == syscall.ENAMETOOLONG && got == syscall.ENOENT):
		return true
	case s.Kind == tree.Chdir && want != 0: // through a descriptor that holds a link, which gVisor follows
		return true
	case (s.Kind == tree.Hard || s.Kind == tree.Program) && want == syscall.EXDEV && got == syscall.EACCES:
		return true
	}
	return want == syscall.ELOOP // too many links, which are counted in another way
}

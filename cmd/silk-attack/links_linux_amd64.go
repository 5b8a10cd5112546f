package main

import (
	"strconv"

	"golang.org/x/sys/unix"
)

func linkAttacks() map[string]attack {
	return map[string]attack{
		"link":          link,
		"link-below":    linkBelow,
		"link-in":       func(args []string) { makeLink(args[1], args[0]+"/l"); read(unix.AT_FDCWD, args[0]+"/l", unix.O_RDONLY) },
		"link-creat":    func(args []string) { makeLink(args[0], "l"); open("l", unix.O_WRONLY|unix.O_CREAT) },
		"link-itself":   linkItself,
		"hardlink":      hardlink,
		"hardlink-fd":   hardlinkFD,
		"move-away":     func(args []string) { makeAt([]string{"move", args[0]}) },
		"cwd-fd":        cwdFD,
		"removed":       removed,
		"rename-parent": renameParent,
	}
}

func makeLink(target, name string) { must("make a link", unix.Symlink(target, name)) }

// link reads through a chain of that many symbolic links.
func link(args []string) {
	target, n := args[1], number(args[0])
	for i := range n {
		name := "l" + strconv.Itoa(i)
		makeLink(target, name)
		target = name
	}
	read(unix.AT_FDCWD, target, unix.O_RDONLY)
}

// linkBelow reads a name below a link to a directory.
func linkBelow(args []string) {
	makeLink(args[0], "d")
	read(unix.AT_FDCWD, "d/"+args[1], unix.O_RDONLY)
}

// linkItself opens a link, not what it leads to, and then that descriptor.
func linkItself(args []string) {
	makeLink(args[0], "l")
	fd, err := unix.Open("l", unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	must("open the link itself", err)
	read(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY)
}

// hardlink gives a file another name, in the workspace, and reads that.
func hardlink(args []string) {
	reached()
	if err := unix.Link(args[0], "h"); err != nil {
		answer(err)
		return
	}
	read(unix.AT_FDCWD, "h", unix.O_RDONLY)
}

// hardlinkFD does so from a descriptor that only names the file.
func hardlinkFD(args []string) {
	reached()
	fd, err := unix.Open(args[0], unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		answer(err)
		return
	}
	if err := unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(fd), unix.AT_FDCWD, "h", unix.AT_SYMLINK_FOLLOW); err != nil {
		answer(err)
		return
	}
	read(unix.AT_FDCWD, "h", unix.O_RDONLY)
}

// cwdFD goes to a directory by descriptor and reads through the link that /proc has of it.
func cwdFD(args []string) {
	must("go there", unix.Fchdir(directory(args[0], unix.O_PATH)))
	read(unix.AT_FDCWD, "/proc/self/cwd/"+args[1], unix.O_RDONLY)
}

// removed climbs out of a working directory that is not there any more.
func removed(args []string) {
	must("make a directory", unix.Mkdir("gone", 0o777))
	must("go there", unix.Chdir("gone"))
	must("remove it", unix.Rmdir("/workspace/gone"))
	read(unix.AT_FDCWD, args[0], unix.O_RDONLY)
}

// renameParent opens a directory, moves it elsewhere, and climbs out of it by "..": the name that was judged is not the
// place any more.
func renameParent(args []string) {
	must("make directories", unix.Mkdir("a", 0o777))
	must("make directories", unix.Mkdir("a/b", 0o777))
	fd := directory("a/b", unix.O_RDONLY|unix.O_DIRECTORY)
	must("move a directory", unix.Rename("a/b", "b"))
	read(fd, ".."+args[0], unix.O_RDONLY) // /workspace/.. is the root
}

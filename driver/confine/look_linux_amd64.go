package confine

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver/rules"
)

// looked is what was found out about a call, besides what [Policy.Judge] is asked.
type looked struct {
	free  bool   // it opens what anybody may
	give  string // a file that is opened for the caller, if it may be
	flags uint64 // how, open(2)
}

// look reads what a call's arguments point to. An error is the caller's.
func (s *Supervisor) look(who Caller, c *Call) (how looked, err error) {
	a := c.Args
	switch c.Name {
	case "open":
		return s.opened(who, c, unix.AT_FDCWD, a[0], a[1])
	case "creat":
		return s.opened(who, c, unix.AT_FDCWD, a[0], unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC)
	case "openat":
		return s.opened(who, c, int32(a[0]), a[1], a[2])
	case "execve":
		err = s.executed(who, c, unix.AT_FDCWD, a[0], 0)
	case "execveat":
		err = s.executed(who, c, int32(a[0]), a[1], a[4])
	case "connect":
		c.To, err = who.address(a[1], uint64(uint32(a[2])))
	case "sendto":
		c.To, err = who.address(a[4], uint64(uint32(a[5])))
	case "sendmsg":
		c.To, err = who.sent(a[1], 1)
	case "sendmmsg":
		c.To, err = who.sent(a[1], a[2])
	case "capset":
		c.Raises, err = who.raises(a[1])
	}
	return how, err
}

// opened is about a file.
func (s *Supervisor) opened(who Caller, c *Call, at int32, name, flags uint64) (how looked, err error) {
	text, err := who.text(name)
	if err != nil || text == "" {
		return how, errors.Join(err, unix.ENOENT)
	}
	if plain(text) && coversAny(s.quick, text) {
		c.Object.Path = text
		return looked{free: true}, nil
	}
	follow := flags&unix.O_NOFOLLOW == 0 && flags&(unix.O_CREAT|unix.O_EXCL) != unix.O_CREAT|unix.O_EXCL
	if c.Object, err = s.lead(who, at, text, follow); err != nil {
		return how, err
	}
	o := c.Object
	if rules.Covers("/proc", o.Path) && !o.Directory && !o.Absent && !o.Link && flags&unix.O_PATH == 0 {
		how = looked{give: o.Path, flags: flags}
	}
	return how, nil
}

// lead is where a path of a caller leads to.
func (s *Supervisor) lead(who Caller, at int32, text string, follow bool) (Object, error) {
	dir := ""
	if text[0] != '/' {
		var err error
		if dir, err = who.directory(at); err != nil {
			return Object{}, err
		}
		if !strings.HasPrefix(dir, "/") { // a descriptor of something that is no directory
			return Object{}, unix.ENOTDIR
		}
	}
	return s.to.Root.resolve(who, dir, text, follow)
}

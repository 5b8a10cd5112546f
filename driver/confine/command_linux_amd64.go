package confine

import (
	"fmt"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
)

// LookUp finds the command of a spec as a shell would. missing is what one would say.
func (r Root) LookUp(spec driver.Spec) (command string, missing *driver.Exit) {
	name := spec.Args[0]
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = nil
		for _, v := range spec.Env {
			if list, ok := strings.CutPrefix(v, "PATH="); ok {
				candidates = nil
				for dir := range strings.SplitSeq(list, ":") {
					candidates = append(candidates, path.Join("/", dir, name))
				}
			}
		}
	}
	missing = &driver.Exit{NotFound: true, Code: 127, Message: name + ": no such command"}
	for _, c := range candidates {
		full := c
		if !path.IsAbs(c) {
			full = path.Join(spec.Dir, c)
		}
		fd, err := r.At(full, unix.O_PATH)
		if err != nil {
			continue
		}
		var s unix.Stat_t
		err = unix.Fstat(fd, &s)
		_ = unix.Close(fd)
		switch {
		case err != nil:
			continue
		case s.Mode&unix.S_IFMT != unix.S_IFREG || !mayExecute(&s):
			missing = &driver.Exit{NotFound: true, Code: 126, Message: name + ": it cannot be executed"}
			continue
		}
		return c, nil
	}
	return "", missing
}

// mayExecute says whether the program's user may execute a file.
func mayExecute(s *unix.Stat_t) bool {
	switch {
	case s.Uid == User:
		return s.Mode&0o100 != 0
	case s.Gid == User:
		return s.Mode&0o010 != 0
	}
	return s.Mode&0o001 != 0
}

// NotExecuted says what a shell would of a command that was found and could not be executed.
func NotExecuted(command string, errno unix.Errno) *driver.Exit {
	if errno == unix.ENOENT { // its interpreter
		return &driver.Exit{NotFound: true, Code: 127, Message: command + ": what interprets it does not exist"}
	}
	return &driver.Exit{NotFound: true, Code: 126, Message: fmt.Sprintf("%s: it cannot be executed: %v", command, errno)}
}

package docker

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/docker/launch"
)

// planOf is what the starter becomes: command, arguments and environment at addresses that nobody can guess, the filter that knows
// them, and no more.
func planOf(spec driver.Spec, command string) (launch.Plan, error) {
	plan := launch.Plan{Terminal: spec.Terminal != nil, Dir: spec.Dir, Limits: []launch.Limit{{Resource: unix.RLIMIT_CORE}}}
	place := func(b []byte) uint64 {
		at := secretAddress()
		plan.Regions = append(plan.Regions, launch.Region{At: at, Bytes: b})
		return at
	}
	vector := func(list []string) uint64 {
		var text []byte
		var offsets []uint64
		for _, s := range list {
			offsets = append(offsets, uint64(len(text)))
			text = append(append(text, s...), 0)
		}
		base := place(append(text, 0))
		var pointers []byte
		for _, o := range offsets {
			pointers = binary.NativeEndian.AppendUint64(pointers, base+o)
		}
		return place(binary.NativeEndian.AppendUint64(pointers, 0))
	}
	plan.Path, plan.Argv, plan.Envp = place([]byte(command+"\x00")), vector(spec.Args), vector(spec.Env)

	// The message that hands over the filter's listener: struct msghdr, then the iovec, the payload, and the control message.
	const header, part, payload, control = 56, 16, launch.MessageBytes, 24
	at := secretAddress()
	native := binary.NativeEndian
	b := make([]byte, header+part+payload+control)
	native.PutUint64(b[16:], at+header)
	native.PutUint64(b[24:], 1)
	native.PutUint64(b[32:], at+header+part+payload)
	native.PutUint64(b[40:], control)
	native.PutUint64(b[header:], at+header+part)
	native.PutUint64(b[header+8:], payload)
	native.PutUint32(b[header+part:], launch.Listens)
	c := b[header+part+payload:] // struct cmsghdr, cmsg(3)
	native.PutUint64(c, 20)
	native.PutUint32(c[8:], unix.SOL_SOCKET)
	native.PutUint32(c[12:], unix.SCM_RIGHTS)
	plan.Regions = append(plan.Regions, launch.Region{At: at, Bytes: b})
	plan.Message, plan.ListenerAt = at, at+header+part+payload+16

	program, err := filter(spec.Network, spec.NoSpawn, secrets{plan.Path, plan.Argv, plan.Envp, plan.Message})
	plan.Filter = encode(program)
	return plan, err
}

// secretAddress is somewhere in the lower half of a process's memory, above what programs are linked to and below the
// stack, at an address that is good for a pointer.
func secretAddress() uint64 {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails: crypto/rand
	n := binary.NativeEndian.Uint64(random[:])
	const low, high = 1 << 32, 0x7000_0000_0000
	return low + n%(high-low)&^7
}

// lookUp finds the command as a shell would, in the container. notFound is what one would say.
func lookUp(r root, spec driver.Spec) (command string, notFound *driver.Exit) {
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
	missing := &driver.Exit{NotFound: true, Code: 127, Message: name + ": no such command"}
	for _, c := range candidates {
		full := c
		if !path.IsAbs(c) {
			full = path.Join(spec.Dir, c)
		}
		fd, err := r.at(full, unix.O_PATH)
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
	case s.Uid == user:
		return s.Mode&0o100 != 0
	case s.Gid == user:
		return s.Mode&0o010 != 0
	}
	return s.Mode&0o001 != 0
}

// release lets the starter go: it is what package watch/bpf writes to when everything that it will do is watched. What is written means
// nothing; the plan and the descriptors are what counts.
type release struct {
	to      party
	plan    []byte
	streams []*os.File // stdin, stdout, stderr
	ruleset int
}

// Write implements io.Writer.
func (r release) Write(b []byte) (int, error) {
	plan, err := memoryFile("silk-plan", r.plan)
	if err != nil {
		return 0, err
	}
	defer plan.Close()
	fds := []int{int(plan.Fd())}
	for _, f := range r.streams {
		fds = append(fds, int(f.Fd())) // makes the file blocking, as a program expects it
	}
	fds = append(fds, r.ruleset)
	if _, _, err := r.to.conn.WriteMsgUnix(launch.Release(r.plan), unix.UnixRights(fds...), nil); err != nil {
		return 0, err
	}
	return len(b), nil
}

// streamsOf are the three descriptors of a program. They go into the container as they are, so they must lead to nothing but what
// is the run's own: pipes and sockets, nothing, or the replica of its terminal.
func streamsOf(spec driver.Spec, null *os.File) ([]*os.File, error) {
	if spec.Terminal != nil {
		if err := spec.Terminal.Chown(user, user); err != nil {
			return nil, fmt.Errorf("give the terminal to the program: %w", err)
		}
		return []*os.File{spec.Terminal, spec.Terminal, spec.Terminal}, nil
	}
	list := []*os.File{spec.Stdin, spec.Stdout, spec.Stderr}
	for i, what := range []string{"stdin", "stdout", "stderr"} {
		if list[i] == nil {
			list[i] = null
			continue
		}
		mode, err := modeOf(int(list[i].Fd()))
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", what, err)
		}
		if mode != unix.S_IFIFO && mode != unix.S_IFSOCK {
			return nil, errors.New("start sandbox: " + what + " is neither a pipe nor a socket")
		}
		if err := list[i].Chown(user, user); err != nil { // who opens /dev/stdin opens it by its owner and mode
			return nil, fmt.Errorf("give %s to the program: %w", what, err)
		}
	}
	return list, nil
}

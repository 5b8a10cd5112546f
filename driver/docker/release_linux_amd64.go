package docker

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/confine"
	"github.com/silk-sandbox/silk/driver/docker/launch"
	"github.com/silk-sandbox/silk/watch/bpf"
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

	secrets := confine.Secrets{Path: plan.Path, Argv: plan.Argv, Envp: plan.Envp, Message: plan.Message}
	filter, err := confine.PolicyOf(spec).Deciding(secrets, bpf.Forbidden)
	plan.Filter = confine.Encode(filter)
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
	plan, err := unix.MemfdCreate("silk-plan", unix.MFD_CLOEXEC)
	if err != nil {
		return 0, fmt.Errorf("make a file of the plan: %w", err)
	}
	defer unix.Close(plan)
	if n, err := unix.Write(plan, r.plan); n != len(r.plan) {
		return 0, fmt.Errorf("write the plan: %w", cmp.Or(err, io.ErrShortWrite))
	}
	fds := []int{plan}
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
		if err := spec.Terminal.Chown(confine.User, confine.User); err != nil {
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
		about, err := list[i].Stat()
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", what, err)
		}
		if about.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) == 0 {
			return nil, errors.New("start sandbox: " + what + " is neither a pipe nor a socket")
		}
		if err := list[i].Chown(confine.User, confine.User); err != nil { // who opens /dev/stdin opens it by its owner and mode
			return nil, fmt.Errorf("give %s to the program: %w", what, err)
		}
	}
	return list, nil
}

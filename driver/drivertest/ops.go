//go:build unix

package drivertest

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/watch"
)

// file is an entry of a fake's workspace.
type file struct {
	header tar.Header
	data   []byte
}

// The operations of a fake's programs. What follows the colon is the operation's argument.
//
//	print:TEXT eprint:TEXT   to stdout or stderr; TEXT may have Go's escapes (\n, \x00)
//	flood:BYTES              so many bytes to stdout, in pieces of 64 KiB: "0123456789" over and over
//	cat                      stdin to stdout until end of file
//	read:NAME                a file of the workspace to stdout
//	tree                     what is in the workspace, a line for each: permissions, name, what a link leads to
//	write:NAME=TEXT          a file into the workspace; under ReadOnly, like the next, nothing
//	remove:NAME              a file out of the workspace
//	disk:BYTES               a file of that size into the workspace: refused beyond WorkspaceBytes, like the next two exit 1
//	tmp:BYTES                the same for /tmp
//	fork:N                   that many processes; exit 2 at the limit or under NoSpawn
//	child                    a process that writes "late" to stdout when the main process has ended, if it can
//	env pwd hostname         to stdout
//	clock random             the time, or a random number, to stdout: those of Spec.Held if it has them
//	alloc:BYTES              ends the sandbox beyond MemoryBytes
//	violate:RULE,CALL,ARG    ends the sandbox
//	inet                     a violation under NetworkDeny
//	open:PATH                a violation for /etc/passwd, and refused outside Trees: exit 1
//	sleep                    until killed, or ended by a signal from outside
//	resized                  until the terminal's size changes
//	signal:N exit:N          the end
//
// do performs one operation and reports whether the program has ended by it.
func (s *sandbox) do(op string) (ended bool) {
	name, arg, _ := strings.Cut(op, ":")
	number, _ := strconv.ParseInt(arg, 10, 64)
	switch name {
	case "print":
		io.WriteString(s.stdout, unescape(arg))
	case "eprint":
		io.WriteString(s.stderr, unescape(arg))
	case "flood":
		flood(s.stdout, number)
	case "cat":
		if s.stdin != nil {
			io.Copy(s.stdout, s.stdin)
		}
	case "read":
		s.stdout.Write(s.files[arg].data)
	case "tree":
		for _, name := range slices.Sorted(maps.Keys(s.files)) {
			h := s.files[name].header
			fmt.Fprintln(s.stdout, strings.TrimSpace(h.FileInfo().Mode().String()+" "+strings.TrimSuffix(name, "/")+" "+h.Linkname))
		}
	case "write":
		if s.spec.ReadOnly {
			return false
		}
		name, text, _ := strings.Cut(arg, "=")
		s.write(name, []byte(unescape(text)))
	case "remove":
		if s.spec.ReadOnly {
			return false
		}
		delete(s.files, arg)
	case "disk":
		if number > s.spec.WorkspaceBytes {
			s.exit.Flags.DiskFull++
			return s.fail("no space left on device", 1)
		}
		s.write("disk", make([]byte, number))
	case "tmp":
		if number > s.spec.TmpBytes {
			s.exit.Flags.TmpFull++
			return s.fail("no space left on device", 1)
		}
	case "fork":
		if s.spec.NoSpawn {
			s.exit.Refused = []driver.Refusal{{Rule: "process.spawn", Count: 1, Acts: []driver.Act{{Syscall: "fork"}}}}
			return s.fail("operation not permitted", 2)
		}
		if number >= int64(s.spec.Processes) {
			s.exit.Flags.PidsLimitHit++
			return s.fail("resource temporarily unavailable", 2)
		}
		s.exit.Usage.Processes += number
	case "child":
		s.offspring.Go(func() {
			<-s.killed
			s.end() // returns when the streams are closed, which killed alone does not say
			io.WriteString(s.stdout, "late")
		})
	case "env":
		io.WriteString(s.stdout, strings.Join(s.spec.Env, "\n")+"\n")
	case "pwd":
		io.WriteString(s.stdout, s.spec.Dir+"\n")
	case "hostname":
		io.WriteString(s.stdout, s.spec.Hostname+"\n")
	case "clock":
		now := time.Now().UnixNano()
		if h := s.spec.Held; h != nil {
			now = h.ClockMs*int64(time.Millisecond) + h.StepNs
		}
		fmt.Fprintln(s.stdout, now)
	case "random":
		n := rand.Int64()
		if h := s.spec.Held; h != nil {
			n = h.Seed
		}
		fmt.Fprintln(s.stdout, n)
	case "alloc":
		if number > s.spec.MemoryBytes {
			s.exit.OOM, s.exit.Signal = true, 9
			return true
		}
		s.exit.Usage.PeakMemoryBytes = max(s.exit.Usage.PeakMemoryBytes, number)
	case "violate":
		parts := strings.SplitN(arg, ",", 3)
		return s.violate(parts[0], parts[1], parts[2])
	case "inet":
		if s.spec.Network == driver.NetworkDeny {
			return s.violate("network.inet", "socket", "AF_INET")
		}
	case "open":
		if arg == "/etc/passwd" {
			return s.violate("file.accounts", "openat", arg)
		}
		if !slices.ContainsFunc(s.spec.Trees, func(tree string) bool { return strings.HasPrefix(arg, tree+"/") || arg == tree }) {
			s.exit.Refused = append(s.exit.Refused, driver.Refusal{Rule: "file.unlisted", Count: 1, Acts: []driver.Act{{Syscall: "openat", Argument: arg}}})
			s.exit.Code = 1
			return true
		}
	case "sleep":
		select {
		case <-s.killed:
		case n := <-s.signals:
			s.exit.Signal = n
			return true
		}
	case "resized":
		select {
		case <-s.resized:
		case <-s.killed:
		}
	case "signal":
		s.exit.Signal = int(number)
		return true
	case "exit":
		s.exit.Code = int(number)
		return true
	default:
		return s.fail(fmt.Sprintf("unknown operation %q", op), 64)
	}
	return false
}

func (s *sandbox) fail(message string, code int) bool {
	io.WriteString(s.stderr, "fake: "+message+"\n")
	s.exit.Code = code
	return true
}

func (s *sandbox) violate(rule, call, arg string) bool {
	s.exit.Violation = &driver.Violation{Rule: rule, Syscall: call, Argument: arg}
	e := watch.Event{At: time.Now(), Origin: watch.Sentry, Kind: watch.Kind(call), Process: 1, Thread: 1, Argument: arg, Result: "killed"}
	s.exit.Watched = driver.Watched{Counts: map[watch.Kind]int64{e.Kind: 1}, Last: []watch.Event{e}}
	if s.spec.Events != nil {
		s.listening.Go(func() { s.spec.Events(e) })
	}
	s.exit.Signal = 9
	return true
}

func (s *sandbox) write(name string, data []byte) {
	s.files[name] = file{tar.Header{Name: name, Typeflag: tar.TypeReg, Size: int64(len(data)), Mode: 0o644, ModTime: time.Now()}, data}
}

func flood(w io.Writer, n int64) {
	piece := bytes.Repeat([]byte("0123456789"), 6554)[:64<<10-6] // whole tens, so that pieces join
	for n > 0 {
		if _, err := w.Write(piece[:min(n, int64(len(piece)))]); err != nil {
			return
		}
		n -= int64(len(piece))
	}
}

func unescape(s string) string {
	if text, err := strconv.Unquote(`"` + strings.ReplaceAll(s, `"`, `\"`) + `"`); err == nil {
		return text
	}
	return s
}

// fill unpacks what write sends. A part of a tar stream is an error.
func fill(files map[string]file, write func(io.Writer) error) error {
	r, w := io.Pipe()
	wrote := make(chan error, 1)
	go func() {
		err := write(w)
		w.CloseWithError(err)
		wrote <- err
	}()
	err := unpack(files, r)
	r.CloseWithError(err)
	if writeErr := <-wrote; writeErr != nil {
		return writeErr
	}
	return err
}

func unpack(files map[string]file, r io.Reader) error {
	archive := tar.NewReader(r)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, r) // the writer's padding
			return err
		}
		if err != nil {
			return err
		}
		data, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		if name == "." {
			continue
		}
		if !fs.ValidPath(name) {
			return fmt.Errorf("name %q leads out of the workspace", h.Name)
		}
		files[name] = file{*h, data}
	}
}

// pack is the inverse of unpack.
func pack(w io.Writer, files map[string]file) error {
	archive := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		f := files[name]
		h := f.header
		h.Format = tar.FormatPAX
		if err := archive.WriteHeader(&h); err != nil {
			return err
		}
		if _, err := archive.Write(f.data); err != nil {
			return err
		}
	}
	return archive.Close()
}

var (
	_ driver.Driver   = (*Fake)(nil)
	_ driver.Resizer  = (*sandbox)(nil)
	_ driver.Signaler = (*sandbox)(nil)
)

package tun

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Quiet says whether no TCP connection in a network namespace has something that its other end has not got. dir is that of a process or thread that is in there:
// /proc/PID/net.
func Quiet(dir string) (bool, error) {
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := readUpTo(dir+"/"+name, maxConnections)
		if errors.Is(err, fs.ErrNotExist) && name == "tcp6" {
			continue // without IPv6
		}
		if err != nil {
			return false, fmt.Errorf("look at connections: %w", err)
		}
		if !quietTable(table) {
			return false, nil
		}
	}
	return true, nil
}

// QuietIn is Quiet of a namespace in which nobody is any more.
func QuietIn(netns *os.File) (quiet bool, err error) {
	err = within(netns, func() (err error) {
		quiet, err = Quiet("/proc/thread-self/net")
		return err
	})
	return quiet, err
}

// maxConnections bounds what is read of a table of connections, of 150 bytes each.
const maxConnections = 1 << 20

func readUpTo(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, most))
}

// quietTable reads proc(5), /proc/net/tcp: the fifth field is tx_queue:rx_queue.
func quietTable(table []byte) bool {
	_, lines, _ := bytes.Cut(table, []byte("\n"))
	for line := range bytes.Lines(lines) {
		f := bytes.Fields(line)
		if len(f) < 5 {
			continue
		}
		if sent, _, _ := bytes.Cut(f[4], []byte(":")); len(bytes.Trim(sent, "0")) > 0 {
			return false
		}
	}
	return true
}

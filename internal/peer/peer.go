// Package peer listens on a unix socket for processes of one account: its own, and root's.
package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
)

// Listen listens on path, which only its owner can connect to. A socket that nobody listens on any more is replaced; one in use
// is an error. Connections of other accounts, which a parent directory or a passed descriptor may let through, are closed
// unread where the system says whose they are. Closing the listener removes the socket.
func Listen(path string) (net.Listener, error) {
	if c, err := net.Dial("unix", path); err == nil {
		c.Close()
		return nil, fmt.Errorf("listen on %s: another server does", path)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("listen on %s: there is something else of that name", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	l, err := listen(path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	return Check(l), nil
}

// Check returns l without the connections of other accounts.
func Check(l net.Listener) net.Listener { return checked{l} }

type checked struct{ net.Listener }

// Accept implements net.Listener.
func (l checked) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if ours(c) {
			return c, nil
		}
		c.Close()
	}
}

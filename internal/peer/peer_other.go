//go:build !linux

package peer

import (
	"errors"
	"net"
)

func listen(string) (net.Listener, error) { return nil, errors.ErrUnsupported }

func ours(net.Conn) bool { return false }

package peer

import (
	"net"
	"os"
	"sync"
	"syscall"
)

// umask is the process's, so two that change it must not meet.
var umask sync.Mutex

// listen makes the socket with mode 0600 from its first moment: a connection is made by opening it for writing, unix(7).
func listen(path string) (net.Listener, error) {
	umask.Lock()
	defer umask.Unlock()
	defer syscall.Umask(syscall.Umask(0o177))
	return net.Listen("unix", path)
}

// ours says whether the other end is a process of our account or of root: SO_PEERCRED, unix(7).
func ours(c net.Conn) bool {
	u, ok := c.(*net.UnixConn)
	if !ok {
		return false
	}
	raw, err := u.SyscallConn()
	if err != nil {
		return false
	}
	var peer *syscall.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) {
		peer, peerErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil || peerErr != nil {
		return false
	}
	return peer.Uid == 0 || int(peer.Uid) == os.Getuid()
}

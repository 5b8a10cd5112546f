package postgres

import (
	"net"
	"syscall"
	"time"
)

// tcpUserTimeout is TCP_USER_TIMEOUT (include/uapi/linux/tcp.h, tcp(7)), which package syscall does not have.
const tcpUserTimeout = 0x12

// silentMs is how long the other side may leave what was sent unacknowledged.
const silentMs = 15000

// dialer notices within a quarter of a minute that a server is gone without a word: its host has lost power, or the way to
// it. Without that a transaction would wait for up to a quarter of an hour.
var dialer = &net.Dialer{
	KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 3},
	Control: func(network, _ string, c syscall.RawConn) (err error) {
		if network != "tcp4" && network != "tcp6" {
			return nil
		}
		if raw := c.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, silentMs) }); raw != nil {
			return raw
		}
		return err
	},
}

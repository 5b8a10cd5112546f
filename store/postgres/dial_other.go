//go:build !linux

package postgres

import (
	"net"
	"time"
)

// dialer notices soon that a server is gone without a word.
var dialer = &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: 3 * time.Second, Count: 3}}

package sentry

import (
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/abi/linux"
)

// ownTerminal makes the donated pty the controlling terminal of this process, which leads a session of its own: only
// then does the host's line discipline turn Ctrl-C into a signal, and a change of size.
func ownTerminal(fd int) error {
	if err := unix.IoctlSetInt(fd, unix.TIOCSCTTY, 0); err != nil {
		return fmt.Errorf("take the terminal: %w", err)
	}
	return nil
}

// forwardTerminalSignals passes on what the line discipline sends, to the foreground process group inside.
func (b *box) forwardTerminalSignals() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGWINCH)
	go func() {
		for s := range signals {
			if n, ok := s.(unix.Signal); ok {
				b.tty.TTY().SignalForegroundProcessGroup(&linux.SignalInfo{Signo: int32(n)})
			}
		}
	}()
}

package firecracker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/internal/guestwire"
)

// link carries packets between the run's way out and the agent, which has a network interface for the program. The agent does what the program
// could: whoever has the other end of the link looks at each packet. A link that is slow makes its sender wait, and packets are lost in the
// guest's kernel or in the gateway, as on any network.
func (s *sandbox) link() error {
	if s.spec.Network != driver.NetworkLink {
		return nil
	}
	way, err := copyOf(s.spec.Link.File)
	if err != nil {
		return fmt.Errorf("copy link: %w", err)
	}
	var both sync.WaitGroup
	both.Go(func() { bringIn(s.conn.Writer(guestwire.Inbound), way) })
	both.Go(func() {
		if err := letOut(way, s.conn.Reader(guestwire.Outbound), s.spec.Link.MTU); err != nil {
			s.fail(err)
		}
	})
	s.undo.PushFunc(func() {
		_ = way.SetDeadline(time.Unix(1, 0))
		_ = s.conn.Close()
		both.Wait()
		_ = way.Close()
	})
	return nil
}

// bringIn writes what arrives on the link. When that has ended so does the program's interface.
func bringIn(to io.WriteCloser, way *os.File) {
	defer to.Close()
	for b := new(guestwire.PacketBuffer); b.SendPacket(to, way) == nil; {
	}
}

// letOut sends what the agent says that the program sends. An error is the agent's, which does not keep to what is agreed; when the link has ended
// it is heard all the same.
func letOut(way io.Writer, from io.Reader, mtu int) error {
	for b := new(guestwire.PacketBuffer); ; {
		packet, err := b.ReceivePacket(from, mtu)
		switch {
		case errors.Is(err, guestwire.ErrProtocol):
			return err
		case err != nil:
			return nil //nolint:nilerr // the machine is gone, of which others tell
		}
		if _, err := way.Write(packet); err != nil {
			_, _ = io.Copy(io.Discard, from)
			return nil //nolint:nilerr // nobody takes packets any more, as on a network that is down
		}
	}
}

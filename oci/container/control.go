package container

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/silk-sandbox/silk/internal/peer"
)

// Order is what a monitor is asked to do.
type Order struct {
	Start  bool `json:"start,omitempty"`  // let the program run; answered when it does
	Signal int  `json:"signal,omitempty"` // send it this one; answered when that is on its way
}

// answer is what a monitor says.
type answer struct {
	Error string `json:"error,omitempty"`
}

// callTime bounds the exchange of one order, but for what the monitor takes to obey it.
const callTime = 10 * time.Second

// Serve answers orders with what obey says, any number at once, until stop is called. stop waits for those that are being obeyed.
func (c *Container) Serve(obey func(Order) error) (stop func(), err error) {
	path, done, err := c.short()
	if err != nil {
		return nil, err
	}
	l, err := peer.Listen(path)
	if err != nil {
		done()
		return nil, fmt.Errorf("listen for orders about container %s: %w", c.ID, err)
	}
	var calls sync.WaitGroup
	calls.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			calls.Go(func() { answerOne(conn, obey) })
		}
	})
	return func() {
		l.Close() // and the name, which is that of a file in the directory until done
		done()
		calls.Wait()
	}, nil
}

func answerOne(conn net.Conn, obey func(Order) error) {
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(callTime)) // fails only on a closed one, and then Decode does
	var o Order
	if json.NewDecoder(conn).Decode(&o) != nil {
		return
	}
	var a answer
	if err := obey(o); err != nil {
		a.Error = err.Error()
	}
	_ = conn.SetWriteDeadline(time.Now().Add(callTime))
	_ = json.NewEncoder(conn).Encode(a) // who asked may have gone
}

// Ask gives an order and waits until it is obeyed. [ErrNotRunning] if there is no monitor.
func (c *Container) Ask(ctx context.Context, o Order) error {
	path, done, err := c.short()
	if err != nil {
		return err
	}
	defer done()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		if !c.Alive() {
			return fmt.Errorf("%w: %s", ErrNotRunning, c.ID)
		}
		return fmt.Errorf("reach container %s: %w", c.ID, err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	var a answer
	err = json.NewEncoder(conn).Encode(o)
	if err == nil {
		err = json.NewDecoder(conn).Decode(&a)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("ask container %s: %w", c.ID, context.Cause(ctx))
	case err != nil: // it ended meanwhile
		return fmt.Errorf("%w: %s", ErrNotRunning, c.ID)
	case a.Error != "":
		return errors.New(a.Error)
	}
	return nil
}

// short is a path of the socket that fits into the 108 bytes of an address (unix(7)), however deep the engine's directory is. It is
// valid until done is called.
func (c *Container) short() (path string, done func(), err error) {
	const name = "control"
	if full := c.file(name); len(full) < 100 {
		return full, func() {}, nil
	}
	dir, err := os.Open(c.path)
	if err != nil {
		return "", nil, fmt.Errorf("open container %s: %w", c.ID, err)
	}
	return filepath.Join(fmt.Sprintf("/proc/self/fd/%d", dir.Fd()), name), func() { dir.Close() }, nil
}

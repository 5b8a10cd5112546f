package driver

import (
	"errors"
	"fmt"
)

// maxPacket is the size of the largest IP packet, in bytes.
const maxPacket = 1<<16 - 1

// Check finds what no driver may be asked for. It is not policy, which has decided before.
func (s Spec) Check() error {
	switch {
	case s.ID == "":
		return errors.New("start sandbox: no id")
	case s.Image == nil:
		return errors.New("start sandbox: no image")
	case len(s.Args) == 0:
		return errors.New("start sandbox: no command")
	case s.Stdout == nil && s.Terminal == nil:
		return errors.New("start sandbox: no output")
	case s.MemoryBytes <= 0, s.WorkspaceBytes <= 0, s.TmpBytes <= 0, s.ShmBytes <= 0 && !s.ReadOnly, s.Processes <= 0, s.CPUs <= 0:
		return errors.New("start sandbox: every limit must be above zero")
	case s.Network == NetworkLink && (s.Link.File == nil || len(s.Link.Addrs) == 0 || s.Link.MTU <= 0 || s.Link.MTU > maxPacket):
		return errors.New("start sandbox: a network without a link")
	case s.Network != NetworkLink && s.Link.File != nil:
		return errors.New("start sandbox: a link without its network")
	case s.Network != NetworkDeny && s.Network != NetworkLoopback && s.Network != NetworkLink:
		return fmt.Errorf("start sandbox: there is no network mode %q", s.Network)
	}
	return nil
}

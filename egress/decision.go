package egress

import (
	"net/netip"
	"time"
)

// Decision is what became of one connection, look-up or packet of a sandbox.
type Decision struct {
	Kind    string        `json:"kind"` // "tcp", "udp" or "dns"
	Host    string        `json:"host"` // the name as it was looked up, or the address
	Port    uint16        `json:"port"` // 0 for a look-up
	Allowed bool          `json:"allowed"`
	Rule    string        `json:"rule,omitempty"`   // what refused it: see [Refusal]; "" if it was allowed
	Reason  string        `json:"reason,omitempty"` // for people; also of a connection that was allowed and did not come about
	Addr    netip.Addr    `json:"addr,omitzero"`    // what was dialled
	Sent    int64         `json:"sent"`             // bytes to the host
	Taken   int64         `json:"taken"`            // bytes from it
	At      time.Time     `json:"at"`               // when it was made
	Lasted  time.Duration `json:"lasted_ns"`
	Conn    uint64        `json:"conn,omitempty"` // the connection's number in its sandbox; 0 for what is none
	Count   int           `json:"count"`          // how often the same was refused since it was last told; 1 at first
}

package egress

import (
	"context"
	"net/netip"
	"os"
	"time"
)

// Order is what a gateway process is told of one sandbox; the sandbox's link is the descriptor beside it.
type Order struct {
	ID        string                `json:"id"`
	Open      bool                  `json:"open,omitempty"`
	Rules     []string              `json:"rules"`
	Hosts     map[string]netip.Addr `json:"hosts,omitempty"`
	Targets   []string              `json:"targets,omitempty"`
	Secrets   []Secret              `json:"secrets,omitempty"`
	Authority *Authority            `json:"authority,omitempty"` // for the hosts of Secrets; nil: those that speak TLS are not let through
	Roots     []byte                `json:"roots,omitempty"`     // PEM: whom the gateway trusts besides the host's own, where it stands in for a host
	Limits    Limits                `json:"limits,omitzero"`
}

// Limits are how much of the network one sandbox gets. Zero values mean the defaults.
type Limits struct {
	Connections int           `json:"connections,omitempty"` // at once; default 256
	Bytes       int64         `json:"bytes,omitempty"`       // both ways, all connections together; default 10 GiB
	Rate        int64         `json:"rate,omitempty"`        // bytes a second, both ways, all connections together; 0: as fast as it goes
	Life        time.Duration `json:"life_ns,omitempty"`     // of one connection; 0: as long as the sandbox
}

// Report is what a gateway process says. The last one of a sandbox says that it has ended.
type Report struct {
	ID       string    `json:"id"`
	Ready    bool      `json:"ready,omitempty"` // packets are served
	Begun    *Decision `json:"begun,omitempty"` // a connection that has come about; its Decision follows with its end
	Decision *Decision `json:"decision,omitempty"`
	Ended    bool      `json:"ended,omitempty"`
	Error    string    `json:"error,omitempty"` // of the end
}

// MTU is the size of the largest packet on a sandbox's link, in bytes. The link is memory: a large one costs less per byte. A byte takes a
// fifth less of the processor with 32 KiB than with 16 (package egress/gateway, BenchmarkPass), and a real sandbox is a third faster with 60 than with 32
// (`bench -only network`). Who reads packets must have room for 64.
const MTU = 60 << 10

// Way is one sandbox's way out.
type Way struct {
	// Link is the sandbox's end of it, a SOCK_SEQPACKET socket. The caller closes it when the sandbox has it, or will not.
	Link *os.File

	// Ready returns when packets are served.
	Ready func(context.Context) error

	// Wait returns after the last decision, which comes soon after nobody has the sandbox's end any more. Its error says that there was
	// no way out from some moment on.
	Wait func(context.Context) error
}

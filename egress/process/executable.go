// Package process is silk's side of a gateway process (egress/gateway): it starts one when the first sandbox needs a way out, gives it
// orders and hears what it has decided. silk itself has no network stack, which would be paid for at each of its starts.
package process

import (
	"embed"

	"github.com/silk-sandbox/silk/internal/embedded"
)

// Name is what the executable is called to be a gateway: its argument 0.
const Name = "silk-gateway"

//go:embed files
var files embed.FS

// Executable is the gateway process, as silk carries it.
var Executable = embedded.Executable{What: "egress gateway", Name: Name, Dir: "gateway", Files: files}

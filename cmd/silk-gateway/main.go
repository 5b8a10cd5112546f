// Command silk-gateway is the network that sandboxes see. silk starts it when the first one needs a way out; it is of no use by hand. See
// package egress/gateway. It is an executable of its own so that neither silk nor the Sentry starts with what it links.
package main

import (
	"os"

	"github.com/silk-sandbox/silk/egress/gateway"
)

func main() { os.Exit(gateway.Main()) }

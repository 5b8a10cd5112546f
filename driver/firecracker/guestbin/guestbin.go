// Package guestbin carries the agent of virtual machines inside silk. It is not executed on the host.
package guestbin

import (
	"embed"

	"github.com/silk-sandbox/silk/internal/embedded"
)

//go:embed files
var files embed.FS

// Agent is the agent.
var Agent = embedded.Executable{What: "agent of virtual machines", Name: "silk-guest", Dir: "microvm/agent", Files: files}

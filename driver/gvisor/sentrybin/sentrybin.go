// Package sentrybin carries the sandbox kernel's executable inside silk: silk's own start pays nothing for gVisor, and a sandbox
// nothing for silk's store and command line.
package sentrybin

import (
	"embed"

	"github.com/silk-sandbox/silk/internal/embedded"
)

//go:embed files
var files embed.FS

// Kernel is the sandbox kernel.
var Kernel = embedded.Executable{What: "sandbox kernel", Name: "silk-sentry", Dir: "sentry", Files: files}

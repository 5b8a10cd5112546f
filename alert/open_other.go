//go:build !unix

package alert

// No sandbox runs on such a system, so no alert is raised on it.
const (
	noFollow = 0
	nonBlock = 0
)

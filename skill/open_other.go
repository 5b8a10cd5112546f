//go:build !unix

package skill

// openFlags: there are none here. What was opened is compared with what was looked at.
const openFlags = 0

//go:build !unix

package audit

// No sandbox runs on such a system, so no trail is written on it.
const openFlags = 0

//go:build !unix

package workspace

// What is opened is compared with what was looked at before; these systems offer nothing more.
const openNonblock, openFlags = 0, 0

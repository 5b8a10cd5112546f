// Package pty makes pseudo-terminals.
//
// It is for a run's own terminal: the engine keeps the main side, the sandbox gets the replica. It does not touch the
// user's terminal.
package pty

// Package kvm says whether this host can run virtual machines, by running one: a few instructions, in five pages of memory.
//
// That /dev/kvm can be opened says little. There are hosts, virtual machines themselves as a rule, where it opens and makes machines, and
// where these execute nothing, or a million instructions in a second.
package kvm

import "errors"

// ErrUnusable is in every error of [Probe]. The text says which step failed.
var ErrUnusable = errors.New("/dev/kvm cannot be used")

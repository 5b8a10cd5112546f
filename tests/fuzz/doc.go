// Package fuzz compares the sandbox's kernel with the host's: the same random file trees and the same questions about
// paths (open, execve) in a silk sandbox and on Linux itself, in a root of its own.
//
// Policy stands or falls with path resolution: what it judges must be what the name means. So the answers must be the same,
// error for error, but for differences that accepted_linux_test.go lists with their reasons; the names in the sandbox's events must
// be those that the host's kernel finds, step by step; and names that lead to what is forbidden must end the run by the
// right rule, and no others may.
//
// `go test` runs a few cases with fixed seeds. SILK_FUZZ_FOR=10m goes on with new seeds for that long, SILK_FUZZ_SEED says
// where to begin, SILK_FUZZ_ALL=1 goes on after a failure, SILK_FUZZ_TREES=1 shows trees. What is found becomes a case of
// TestFixed or TestFixedPaths.
package fuzz

// Package compat runs CPython's own regression tests in silk and, with the same image, under bubblewrap, and holds the
// results against each other: what an ordinary Linux does and a sandbox does not, programs would notice.
//
// What may differ stands in testdata/differences.yaml, each test by name with the reason; a difference that has gone
// fails too, so that the list does not rot. docs/compatibility.md says what it comes to.
//
// The tests need the built silk, bubblewrap, and the image compat:python:
//
//	silk image build -f tests/compat/python.yaml
//
// and take two to four minutes; `go test -short` leaves them out.
package compat

// Package cgroup2 tests that silk keeps its limits on a host with control groups of version 2, and on one whose groups
// it may not use.
//
// The tests run where silk finds version 2, as root or as an ordinary user to whom a part of the tree is delegated, and
// where it finds no group that it may use. Many machines have version 1; `make test-cgroup2` therefore boots a virtual
// machine (boot) whose first process (init) runs them in all three situations, and those of internal/cgroup besides.
package cgroup2

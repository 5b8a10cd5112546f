// Package egress holds the way out of a sandbox against programs that try others: what --net names is reached, by Python, Node.js and curl, and
// nothing else is.
//
// The tests have an internet of their own (world_linux_test.go): a network namespace with servers at public and not so public addresses, a
// resolver that remembers what it was asked, and beside it the namespace and mount namespace in which silk runs, with a route to the
// former and that resolver in /etc/resolv.conf. No packet leaves the machine.
//
// A row of testdata/rows says what a program tries under which rules, and what must come of it. Each attempt carries a word of its
// own, so that what servers and resolver have seen is known one by one. A row that must be refused has a control: the same attempt with its
// rule added, or its check off, which must get through; a server that is not there makes no row pass. To add one, write it; what takes more
// than one attempt is a test of its own.
//
// The tests need root, iproute2, the built silk, and the images lab:python, lab:node and
//
//	silk image build -f tests/egress/curl.yaml
//
// What is tried as root is tried in containers of Docker, too, where tools/dockerd can start an engine: one of the tests' own, which has to be in their
// namespaces (engine_linux_test.go).
package egress

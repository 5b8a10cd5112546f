// Package labs runs the programs in examples/labs, each as root and as an ordinary user, without a network: what the
// documentation shows is what comes of them.
//
// The labs whose images CI has run with every test; those with large images of their own with SILK_TEST_LABS=all, which
// `make test-labs` sets after it has built the images. `go test ./tests/labs -update` keeps the pictures that the
// documentation shows.
package labs

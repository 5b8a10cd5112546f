//go:build linux

// Command bench compares silk with other ways to run the same program, and writes docs/benchmarks.md.
//
// Every figure comes from one invocation on one machine: the contenders take turns, in an order that rotates with each
// round, so that whatever else the machine does falls on all of them. What is compared are medians and their ratios;
// an absolute number says little about another machine. The programs are the same files for all: those of a lab image,
// which silk runs from the image store and the others from a copy of it in a directory.
//
// `make bench` runs it, as root: without root there is no runc, and no plain process in the image's own files.
package main

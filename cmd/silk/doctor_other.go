//go:build !linux

package main

// hostFacts are about Linux; elsewhere the driver says why nothing runs.
func hostFacts() []fact { return nil }

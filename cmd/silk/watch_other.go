//go:build !linux || !amd64

package main

// watchFact says that nothing can be watched where nothing runs.
func watchFact(bool) fact {
	return fact{"host watch (eBPF)", factNo, "needs Linux on amd64"}
}

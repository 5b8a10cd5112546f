//go:build !linux || !amd64

package main

import "os"

// main says that there is nothing to attack: sandboxes run on Linux on amd64 only.
func main() {
	os.Stderr.WriteString("silk-attack runs on Linux on amd64 only\n")
	os.Exit(3)
}

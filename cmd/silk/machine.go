package main

import "os/exec"

// findQEMU is the path of what runs virtual machines, or empty.
func findQEMU() string {
	path, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return ""
	}
	return path
}

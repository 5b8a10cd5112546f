package main

import "os/exec"

// findProgram is the path of a program that runs virtual machines, or empty.
func findProgram(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}

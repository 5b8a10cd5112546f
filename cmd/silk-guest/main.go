// Command silk-guest is the agent in a virtual machine: the first process of a kernel that was booted for one run, alone in its initial
// file system. It calls the host (internal/guestwire), is told what to do (a plan of driver/firecracker/wire), makes the run's file systems, fills
// the workspace, and starts the program: in namespaces of its own, as user 1000 without capabilities, behind Landlock and a seccomp filter
// whose questions it answers itself (driver/confine). It passes on what the program reads and writes, ends what is left of it, drains the workspace,
// reports how it ended, and switches the machine off when the host has everything.
//
// It trusts the host and nobody else. The program cannot reach it: it has no name in the program's file system, belongs to another user, and
// what it holds (the channel to the host, the drives) was never the program's. Were it taken over by way of the kernel, it could lie about
// its own run; what it says is checked by the host as an enemy's.
//
// The same file is the program's last form before it is the program: see stage.
package main

import "os"

func main() { os.Exit(start()) }

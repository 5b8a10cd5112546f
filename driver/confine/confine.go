// Package confine is how a program is kept to its plan by an ordinary Linux kernel: what of driver/rules a seccomp filter asks
// about and what is answered ([Filter], [Policy]), what the name of a file leads to for the one who opens it ([Root]), what
// Landlock leaves of the file system ([Places]), and the workspace as a directory ([Workspace]).
//
// The filter only asks. Every decision is made by [Policy.Judge], which is pure. An answer that lets a call go on rests on what was in
// the caller's memory when it was looked at, and another thread can change that: so behind each answer about memory there is a
// wall that does not look there. Files have Landlock, addresses a network without a way out, capabilities that there are none.
package confine

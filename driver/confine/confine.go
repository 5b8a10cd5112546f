// Package confine is how a program is kept to its plan by an ordinary Linux kernel, be it the host's (driver/docker) or that of a virtual
// machine (cmd/silk-guest): seccomp filters by the table of driver/rules ([Policy]), which decide or ask; who answers what they ask
// ([Supervisor]); what the name of a file leads to for the one who opens it ([Root]); what Landlock leaves of the file system ([Places]); and the
// workspace as a directory ([Workspace]).
//
// What is answered is decided by [Policy.Judge], which is pure. An answer that lets a call go on rests on what was in
// the caller's memory when it was looked at, and another thread can change that: so behind each answer about memory there is a
// wall that does not look there. Files have Landlock, addresses a network without a way out or with a gateway at its end, capabilities that there are none; and in /proc,
// where names are not enough, the supervisor opens for the program what it has judged.
package confine

// User is the uid and gid of every program (docs/security.md).
const User = 1000

// Package detach is what a process needs that others watch from outside instead of its parent: a network namespace that they may
// take for its own, and an eye on a process that is not its child.
package detach

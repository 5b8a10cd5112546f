// Package calltable has the names of the system calls of Linux on amd64. It is the same on every system, for those who only write of them.
package calltable

import "slices"

//go:generate go run ./generate

// Number is that of a system call.
func Number(name string) (number int, ok bool) {
	number = slices.Index(names[:], name)
	return number, number >= 0 && name != ""
}

// Name is the reverse of Number; "" for a number that is none.
func Name(number int) string {
	if number < 0 || number >= len(names) {
		return ""
	}
	return names[number]
}

package bpf

import "slices"

// CallNumber is the number of a system call on amd64.
func CallNumber(name string) (number int, ok bool) {
	number = slices.Index(callNames[:], name)
	return number, number >= 0 && name != ""
}

// CallName is the reverse of CallNumber; "" for a number that is none.
func CallName(number int) string {
	if number < 0 || number >= len(callNames) {
		return ""
	}
	return callNames[number]
}

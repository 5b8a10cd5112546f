package calltable

import "testing"

func TestNumber(t *testing.T) {
	for _, test := range []struct {
		name   string
		number int
		ok     bool
	}{
		{"read", 0, true},
		{"openat", 257, true}, // arch/x86/entry/syscalls/syscall_64.tbl
		{"clone3", 435, true},
		{"", -1, false},
		{"no such call", -1, false},
	} {
		number, ok := Number(test.name)
		if ok != test.ok || ok && number != test.number {
			t.Errorf("Number(%q) = %d, %t, want %d, %t", test.name, number, ok, test.number, test.ok)
		}
		if ok && Name(number) != test.name {
			t.Errorf("Name(%d) = %q, want %q", number, Name(number), test.name)
		}
	}
	for _, number := range []int{-1, 1 << 20, 400} { // 400 is in the gap before the numbers that all architectures share
		if got := Name(number); got != "" {
			t.Errorf("Name(%d) = %q, want none", number, got)
		}
	}
}

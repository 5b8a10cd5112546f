package kvm

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"
	"time"
)

// Whatever this host has, the question is answered within the limit and a moment, and a refusal names the step.
func TestProbe(t *testing.T) {
	began := time.Now()
	err := Probe(3 * time.Second)
	t.Logf("after %v: %v", time.Since(began), err)
	if err != nil && (!errors.Is(err, ErrUnusable) || err.Error() == ErrUnusable.Error()) {
		t.Errorf("it says %v", err)
	}
}

// A processor that stops for another reason, or says something else, has not run the program.
func TestWhy(t *testing.T) {
	state := func(reason uint32, at uint16, said byte) []byte {
		b := make([]byte, 4096)
		binary.NativeEndian.PutUint32(b[atReason:], reason)
		binary.NativeEndian.PutUint16(b[atIO+2:], at)
		binary.NativeEndian.PutUint64(b[atIO+8:], 1000)
		b[1000] = said
		return b
	}
	for name, test := range map[string]struct {
		state []byte
		said  bool
		want  string // empty: it goes on
	}{
		"the word":            {state(exitIO, port, word), false, ""},
		"another word":        {state(exitIO, port, word+1), false, "something else"},
		"another port":        {state(exitIO, port+1, word), false, "port 0x11"},
		"the word twice":      {state(exitIO, port, word), true, "reason 2"},
		"a halt before it":    {state(exitHalt, 0, 0), false, "reason 5"},
		"a failure of entry":  {state(9, 0, 0), false, "reason 9"},
		"the halt at its end": {state(exitHalt, 0, 0), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := stopped(test.state, test.said)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

package firecracker

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/internal/guestwire"
)

// wayOut takes packets, until it has had enough.
type wayOut struct {
	packets []string
	most    int
}

func (w *wayOut) Write(b []byte) (int, error) {
	if len(w.packets) == w.most {
		return 0, errors.New("nobody is there any more")
	}
	w.packets = append(w.packets, string(b))
	return len(b), nil
}

// What an agent says that the program sends is let out packet by packet, or is an attack.
func TestLetOut(t *testing.T) {
	const mtu = 5
	for _, test := range []struct {
		name, said string
		want       []string
		broken     bool
	}{
		{"nothing", "", nil, false},
		{"two packets", "\x00\x01a\x00\x05bcdef", []string{"a", "bcdef"}, false},
		{"an end within a length", "\x00\x01a\x00", []string{"a"}, false},
		{"an end within a packet", "\x00\x01a\x00\x05bcd", []string{"a"}, false},
		{"a packet of nothing", "\x00\x01a\x00\x00", []string{"a"}, true},
		{"a packet that is too large", "\x00\x06abcdef", nil, true},
		{"the largest that can be said", "\xff\xffabcdef", nil, true},
		{"more than is taken", "\x00\x01a\x00\x01b\x00\x01c\x00\x01d", []string{"a", "b", "c"}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			to, from := &wayOut{most: 3}, strings.NewReader(test.said)
			err := letOut(to, from, mtu)
			if !slices.Equal(to.packets, test.want) || errors.Is(err, guestwire.ErrProtocol) != test.broken || err != nil && !test.broken {
				t.Errorf("%q, %v; want %q", to.packets, err, test.want)
			}
			if !test.broken && from.Len() > 0 {
				t.Errorf("%d bytes were not read: who sends them waits", from.Len())
			}
		})
	}
}

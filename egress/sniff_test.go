package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"testing"
)

// helloOf is the ClientHello that Go's client says.
func helloOf(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		_ = tls.Client(client, c).Handshake() // it ends with the pipe
		_ = client.Close()
	}()
	b := make([]byte, MaxSniff)
	n, err := server.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return b[:n]
}

// split puts the handshake message of a record into records of n bytes.
func split(record []byte, n int) (out []byte) {
	for body := record[5:]; len(body) > 0; {
		part := body[:min(n, len(body))]
		body = body[len(part):]
		out = append(append(out, record[0], record[1], record[2], byte(len(part)>>8), byte(len(part))), part...)
	}
	return out
}

func TestSniff(t *testing.T) {
	hello := helloOf(t, &tls.Config{ServerName: "API.Example.org"})
	nameless := helloOf(t, &tls.Config{InsecureSkipVerify: true})
	last := func(b []byte, change func([]byte)) []byte {
		b = bytes.Clone(b)
		change(b)
		return b
	}
	for _, test := range []struct {
		name string
		said []byte
		want Hello
		err  error
	}{
		{"TLS", hello, Hello{TLS, "api.example.org"}, nil},
		{"TLS, and more", append(bytes.Clone(hello), 1, 2, 3), Hello{TLS, "api.example.org"}, nil},
		{"TLS in records of 10 bytes", split(hello, 10), Hello{TLS, "api.example.org"}, nil},
		{"TLS in records of one byte", split(hello, 1), Hello{TLS, "api.example.org"}, nil},
		{"TLS 1.2", helloOf(t, &tls.Config{ServerName: "a.example", MaxVersion: tls.VersionTLS12}), Hello{TLS, "a.example"}, nil},
		{"TLS without a name", nameless, Hello{}, ErrNoName},
		{"TLS to an address", helloOf(t, &tls.Config{ServerName: "127.0.0.1", InsecureSkipVerify: true}), Hello{}, ErrNoName},
		{"an alert", []byte{21, 3, 1, 0, 2, 1, 0}, Hello{}, ErrUnknown},
		{"a record of another kind in between", append(split(hello, 10)[:15], 23, 3, 3, 0, 1, 0), Hello{}, ErrUnknown},
		{"an empty record", append([]byte{22, 3, 1, 0, 0}, hello...), Hello{}, ErrUnknown},
		{"a record that is too long", []byte{22, 3, 1, 0x40, 1}, Hello{}, ErrUnknown},
		{"another handshake message", last(hello, func(b []byte) { b[5] = 2 }), Hello{}, ErrUnknown},
		{"a damaged name", bytes.Replace(hello, []byte("API.Example"), []byte("API Example"), 1), Hello{}, ErrUnknown},
		{"NUL in the name", bytes.Replace(hello, []byte("API.Example"), []byte("API\x00Example"), 1), Hello{}, ErrUnknown},
		{"SSL 2", []byte{0x80, 0x2e, 1, 3, 1}, Hello{}, ErrOldHello},
		{"HTTP", []byte("GET / HTTP/1.1\r\n"), Hello{Protocol: HTTP}, nil},
		{"HTTP, a method of its own", []byte("M-SEARCH * HTTP/1.1\r\n"), Hello{Protocol: HTTP}, nil},
		{"HTTP/2 without TLS", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), Hello{}, ErrUnknown},
		{"SSH", []byte("SSH-2.0-OpenSSH_9.2\r\n"), Hello{}, ErrUnknown},
		{"a blank", []byte(" GET / HTTP/1.1\r\n"), Hello{}, ErrUnknown},
		{"a line break", []byte("\r\nGET / HTTP/1.1\r\n"), Hello{}, ErrUnknown},
		{"a method without end", bytes.Repeat([]byte("A"), 33), Hello{}, ErrUnknown},
		{"nothing", nil, Hello{}, ErrMore},
		{"a beginning", []byte("GE"), Hello{}, ErrMore},
	} {
		if got, err := Sniff(test.said); got != test.want || !errors.Is(err, test.err) {
			t.Errorf("%s: %+v, %v, want %+v, %v", test.name, got, err, test.want, test.err)
		}
	}
	for n := range hello {
		if got, err := Sniff(hello[:n]); !errors.Is(err, ErrMore) {
			t.Fatalf("after %d of %d bytes: %+v, %v, want that there is more", n, len(hello), got, err)
		}
	}
	if got, err := Sniff(append([]byte{22, 3, 1, 0x40, 0, 1, 0, 0xfb, 0xff}, make([]byte, MaxSniff)...)); !errors.Is(err, ErrUnknown) {
		t.Errorf("a message longer than what is read: %+v, %v", got, err)
	}
}

// TestSniffHidden adds the extension of an Encrypted ClientHello, which Go's client sends to servers only whose keys it has.
func TestSniffHidden(t *testing.T) {
	hello := helloOf(t, &tls.Config{ServerName: "api.example.org"})
	at := bytes.Index(hello, []byte("api.example.org")) - 9 // of its extension: type, length, length of the list, type, length of the name
	extension := []byte{0xfe, 0x0d, 0, 1, 0}
	b := append(append(bytes.Clone(hello[:at]), extension...), hello[at:]...)
	grow := func(at, size int) {
		n := 0
		for _, c := range b[at : at+size] {
			n = n<<8 | int(c)
		}
		for i := size - 1; i >= 0; i-- {
			b[at+i] = byte((n + len(extension)) >> (8 * (size - 1 - i)))
		}
	}
	grow(3, 2)
	grow(6, 3)
	extensions := 5 + 4 + 2 + 32
	extensions += 1 + int(b[extensions])
	extensions += 2 + int(b[extensions])<<8 + int(b[extensions+1])
	extensions += 1 + int(b[extensions])
	grow(extensions, 2)
	if got, err := Sniff(b); !errors.Is(err, ErrHidden) {
		t.Errorf("Sniff = %+v, %v, want %v", got, err, ErrHidden)
	}
}

func FuzzSniff(f *testing.F) {
	hello := helloOf(f, &tls.Config{ServerName: "api.example.org"})
	f.Add(hello)
	f.Add(split(hello, 7))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Fuzz(func(t *testing.T, said []byte) {
		h, err := Sniff(said)
		if err == nil && (h.Protocol == TLS) != validName(h.Name) {
			t.Errorf("%+v has no valid name", h)
		}
		// What is known does not change with what comes after.
		if again, againErr := Sniff(append(bytes.Clone(said), "more"...)); !errors.Is(err, ErrMore) && (again != h || !errors.Is(againErr, err) && againErr.Error() != err.Error()) {
			t.Errorf("%+v, %v became %+v, %v", h, err, again, againErr)
		}
	})
}

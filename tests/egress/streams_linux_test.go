package egress

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/silk-sandbox/silk/run"
)

// try runs Python code under some rules, which has to end well, and returns what it printed.
func try(t *testing.T, as who, net, code string, flags ...string) (string, result) {
	t.Helper()
	s := newSilk(t, as, "", python)
	got, err := s.run(t.Context(), append([]string{"-p", python, "--net", net, "--timeout", "60s", "-c", code}, flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	if got.outcome.Kind != run.OK {
		t.Fatalf("%s: %s%s%s", got.outcome.Kind, text(got.outcome.Stdout), text(got.outcome.Stderr), got.stderr)
	}
	return text(got.outcome.Stdout), got
}

// TestStreams: what a connection carries comes through whole, and its ends as they are.
func TestStreams(t *testing.T) {
	for i, test := range []struct{ name, code, want string }{
		{"the client closes its half first", `
import hashlib, os, socket
data = os.urandom(1 << 20)
with socket.create_connection(("api.test", 101), 30) as s:
    s.sendall(data)
    s.shutdown(socket.SHUT_WR)
    said = s.makefile().read()
print(said == f"{len(data)} {hashlib.sha256(data).hexdigest()} <nil>")`, "True"},
		{"the server closes its half first", `
import socket
with socket.create_connection(("api.test", 102), 30) as s:
    s.sendall(b"100000\n")
    n = 0
    while b := s.recv(65536):
        n += len(b)
    s.sendall(b"w1cw, after the end of the other half")  # is heard
    s.shutdown(socket.SHUT_WR)
    print(n)`, "100000"},
		{"much, both ways at once", `
import hashlib, os, socket, threading
data = os.urandom(1 << 20)
there, back, n = hashlib.sha256(), hashlib.sha256(), 0
with socket.create_connection(("api.test", 7), 30) as s:
    def write():
        for _ in range(32):
            there.update(data)
            s.sendall(data)
        s.shutdown(socket.SHUT_WR)
    writer = threading.Thread(target=write)
    writer.start()
    while b := s.recv(1 << 16):
        back.update(b)
        n += len(b)
    writer.join()
print(n, there.digest() == back.digest())`, "33554432 True"},
		{"much from the server, slowly read", `
import hashlib, socket, time
want, got, n = hashlib.sha256(), hashlib.sha256(), 8 << 20
for _ in range(n // 256):
    want.update(bytes(i * 7 & 255 for i in range(256)))
with socket.create_connection(("api.test", 102), 30) as s:
    s.sendall(b"%d\n" % n)
    time.sleep(0.5)  # buffers are full then, and hold back the server
    while b := s.recv(10000):
        got.update(b)
print(want.digest() == got.digest())`, "True"},
		{"the server breaks off", `
import socket
with socket.create_connection(("api.test", 9), 30) as s:
    s.sendall(b"hello")
    print(s.recv(10), end=" ")
    s.sendall(b"more")
    try:
        print("the end" if s.recv(10) == b"" else "something came")
    except ConnectionResetError:
        print("reset")`, "b'part' reset"},
		{"the client breaks off", `
import socket, struct, time
with socket.create_connection(("api.test", 9), 30) as s:
    s.sendall(b"w9cw")
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    print(s.recv(10))
time.sleep(0.5)  # with the sandbox all of its connections end, as if they had been closed`, "b'part'"},
		{"nobody is there", `
import socket
try:
    socket.create_connection(("api.test", 6), 30)
except ConnectionRefusedError:
    print("refused")`, "refused"},
		{"two hundred connections at once", `
import asyncio
async def one(i, all_open):
    reader, writer = await asyncio.open_connection("api.test", 7)
    await all_open.wait()
    text = f"{i} " * 1000
    writer.write(text.encode())
    writer.write_eof()
    back = await reader.read(-1)
    writer.close()
    return back.decode() == text
async def main():
    all_open = asyncio.Barrier(200)
    results = await asyncio.gather(*(one(i, all_open) for i in range(200)), return_exceptions=True)
    print(sum(r is True for r in results), next((repr(r) for r in results if r is not True), ""))
asyncio.run(main())`, "200"},
		{"more connections than a sandbox has", `
import asyncio
async def main():
    got = await asyncio.gather(*(asyncio.open_connection("93.184.215.14", 7) for _ in range(300)), return_exceptions=True)
    there = [g for g in got if isinstance(g, tuple)]
    refused = sum(isinstance(g, ConnectionRefusedError) for g in got)
    for _, writer in there:
        writer.close()
        await writer.wait_closed()
    for _ in range(100):  # the other side hears of it
        try:
            reader, writer = await asyncio.open_connection("93.184.215.14", 7)
            break
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)
    writer.write(b"hello")
    print(len(there), refused, await reader.read(5))
asyncio.run(main())`, "256 44 b'hello'"},
	} {
		as := whos[i%2] // root, or the user; and each of them in a container
		t.Run(test.name, func(t *testing.T) { checkStream(t, as, test.code, test.want, "") })
		t.Run(test.name+", in a container", func(t *testing.T) { checkStream(t, container, test.code, test.want, "8") })
	}
}

// checkStream runs code, in whose words a number comes first.
func checkStream(t *testing.T, as who, code, want, number string) {
	t.Parallel()
	w := enterWorld(t)
	first, last := "w"+number+"1cw", "w"+number+"9cw"
	code = strings.NewReplacer("w1cw", first, "w9cw", last).Replace(code)
	said, got := try(t, as, "tcp:api.test:7,tcp:api.test:9,tcp:api.test:6,tcp:api.test:101,tcp:api.test:102,93.184.215.14:7", code, "--memory", "1GiB")
	if strings.TrimSpace(said) != want {
		t.Errorf("it says %s, want %s; silk: %+v", said, want, got.outcome.Egress)
	}
	if strings.Contains(code, first) && !w.awaits(first, "source "+first+" has ended") {
		t.Error("what the client said after the server's end has not come")
	}
	if strings.Contains(code, last) && !w.awaits(last, "resets "+last+" the client broke off") {
		t.Errorf("the server has not heard how the client ended: %q", w.of(last, ""))
	}
	if d, ok := got.refusal("tcp", "93.184.215.14", 7, "connections"); ok != (want == "256 44 b'hello'") || ok && d.Count < 44 {
		t.Errorf("silk says %+v", got.outcome.Egress)
	}
}

// TestRebinding: a name that is public when it is first looked up, and the host's own then.
func TestRebinding(t *testing.T) {
	for _, as := range []who{root, container} {
		t.Run(as.name, func(t *testing.T) { checkRebinding(t, as) })
	}
}

func checkRebinding(t *testing.T, as who) {
	t.Helper()
	w := enterWorld(t)
	code := `
import http.client
for _ in range(3):
    c = http.client.HTTPConnection("NAME.rebind.test", 80, timeout=15)
    c.request("GET", "/")
    r = c.getresponse()
    print(r.status, r.read().decode().strip())
`
	for _, test := range []struct {
		name, config, want string
		home               bool // its own server is reached
	}{
		{"w2rw", "", "200 hello from http /\n403", false},
		{"w3rw", "egress: {targets: ['127.0.0.1/32:80']}\n", "200 hello from http /\n200 hello from http /", true},
	} {
		test.name = as.words(test.name)
		s := newSilk(t, as, test.config, python)
		got, err := s.run(t.Context(), "-p", python, "--net", "*.rebind.test:80", "-c", strings.ReplaceAll(code, "NAME", test.name))
		if err != nil {
			t.Fatal(err)
		}
		if said := text(got.outcome.Stdout); !strings.HasPrefix(said, test.want) {
			t.Errorf("%s: %s%s, want %s", test.name, said, text(got.outcome.Stderr), test.want)
		}
		home := false
		for _, seen := range w.of(test.name, "http") {
			home = home || strings.Contains(seen, "at 127.0.0.1")
		}
		if home != test.home {
			t.Errorf("%s: the host's own server has seen it: %t; all: %q", test.name, home, w.of(test.name, ""))
		}
	}
}

// TestLastWords: what a program says before it ends arrives, as from any host.
func TestLastWords(t *testing.T) {
	for n, as := range whos {
		t.Run(as.name, func(t *testing.T) {
			w := enterWorld(t)
			var all sync.WaitGroup
			slots := make(chan struct{}, 2)
			for i := range 6 {
				slots <- struct{}{}
				word := fmt.Sprintf("w%dcw", 500+10*n+i)
				s := newSilk(t, as, "", python)
				all.Go(func() {
					defer func() { <-slots }()
					code := fmt.Sprintf(`
import os, socket
s = socket.create_connection(("api.test", 7), 30)
s.sendall(b"." * 30000 + b"%s")
os._exit(0)`, word)
					got, err := s.run(t.Context(), "-p", python, "--net", "tcp:api.test:7", "-c", code)
					if err != nil || got.outcome.Kind != run.OK || len(w.of(word, "echo")) == 0 {
						t.Errorf("%v, %s; seen %q of %+v", err, got.outcome.Kind, w.of(word, ""), got.outcome.Egress)
					}
				})
			}
			all.Wait()
		})
	}
}

package egress

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/run"
)

// violated is the exit status of silk when policy has ended the run, and denied when it has refused to begin.
const (
	violated = 159
	denied   = 126
)

// TestRefusalsThatKill: under a profile with on_refused: kill the first attempt to leave is a violation.
func TestRefusalsThatKill(t *testing.T) {
	for _, as := range []who{root, container} {
		t.Run(as.name, func(t *testing.T) { checkRefusalsThatKill(t, newSilk(t, as, "", python)) })
	}
}

func checkRefusalsThatKill(t *testing.T, s silk) {
	t.Helper()
	w := enterWorld(t)
	for _, test := range []struct{ name, code, rule, argument string }{
		{"a name", `socket.create_connection(("w11rw.other.test", 80), 5)`, "egress.name", "w11rw.other.test"},
		{"an address", `socket.create_connection(("10.0.0.5", 80), 5)`, "egress.address", "10.0.0.5:80"},
		{"a port", `socket.create_connection(("api.test", 8080), 5)`, "egress.port", "api.test:8080"},
		{"a protocol", `c = socket.create_connection(("api.test", 80), 5); c.sendall(b"12w12rw\n"); c.recv(1); c.recv(1)`, "egress.protocol", "api.test:80"},
		{"a datagram", `socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"w13rw", ("93.184.215.14", 443))`, "egress.udp", "93.184.215.14:443"},
		{"nothing of it", `c = socket.create_connection(("api.test", 80), 5); c.sendall(b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n"); print(c.recv(15))`, "", ""},
	} {
		code := "import socket, time\ntry:\n    " + test.code + "\nexcept OSError as e:\n    print(e)\n"
		if test.rule != "" {
			code += "time.sleep(30)\nprint('it went on')\n"
		}
		got, err := s.run(t.Context(), "-p", "strict", "--net", "api.test:80", "--timeout", "60s", "-c", code)
		if err != nil {
			t.Fatal(err)
		}
		o := got.outcome
		if test.rule == "" {
			if o.Kind != run.OK || text(o.Stdout) != "b'HTTP/1.1 200 OK'\n" {
				t.Errorf("%s: %s %s %s", test.name, o.Kind, o.Message, text(o.Stdout))
			}
			continue
		}
		if got.status != violated || o.Kind != run.Violated || o.Rule != test.rule || o.Argument != test.argument || strings.Contains(text(o.Stdout), "it went on") {
			t.Errorf("%s: status %d, %s by %s %s(%s), %q; want %s of %s", test.name, got.status, o.Kind, o.Rule, o.Syscall, o.Argument, text(o.Stdout), test.rule, test.argument)
		}
		if !strings.Contains(got.stderr, "WIDOW RED") && !strings.Contains(got.stderr, test.rule) {
			t.Errorf("%s: silk says %q", test.name, got.stderr)
		}
	}
	for _, word := range []string{"w11rw", "w12rw", "w13rw"} {
		if seen := w.of(word, ""); len(seen) > 0 {
			t.Errorf("what ended the run had its effect: %q", seen)
		}
	}
}

// TestNoWayOut: without a way out an attempt to leave is a violation, and so are sockets that no rule is about in any mode.
func TestNoWayOut(t *testing.T) {
	for n, as := range []who{root, container} {
		t.Run(as.name, func(t *testing.T) { checkNoWayOut(t, newSilk(t, as, "", python), 8000+1000*n) })
	}
}

// checkNoWayOut has words from a number on.
func checkNoWayOut(t *testing.T, s silk, number int) {
	t.Helper()
	w := enterWorld(t)
	connect := `import socket; socket.create_connection(("93.184.215.14", 80), 5).sendall(b"GET /WORD HTTP/1.1\r\nHost: x\r\n\r\n")`
	datagram := `import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.sendto(b"WORD", ("93.184.215.14", 7)); s.settimeout(1); s.recv(1)`
	for _, test := range []struct{ net, code, rule string }{
		{"deny", connect, "network.inet"},
		{"deny", datagram, "network.inet"},
		{"loopback", connect, "network.outside"},
		{"loopback", datagram, "network.outside"},
		{"loopback", `import socket; socket.getaddrinfo("WORD.other.test", 80)`, ""},
		{"api.test:80", `import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)`, "network.raw"},
		{"api.test:80", `import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x300)`, "network.packet"},
		{"93.184.215.14:80", connect + "; print('through')", ""}, // the control
	} {
		word := fmt.Sprintf("w%dcw", number+len(test.code)+len(test.net))
		got, err := s.run(t.Context(), "-p", python, "--net", test.net, "-c", strings.ReplaceAll(test.code, "WORD", word))
		if err != nil {
			t.Fatal(err)
		}
		through := strings.Contains(text(got.outcome.Stdout), "through")
		if got.outcome.Rule != test.rule || (got.status == violated) != (test.rule != "") || (len(w.of(word, "")) > 0) != through {
			t.Errorf("%s under %s: status %d, rule %q, want %q; seen %q; %s%s", test.code, test.net, got.status, got.outcome.Rule, test.rule, w.of(word, ""), got.stderr, text(got.outcome.Stderr))
		}
	}
}

// open tries an open network.
const open = `
import json, lib, socket
def tried(f, *args, **more):
    try:
        return str(f(*args, **more))
    except OSError as e:
        return "error: " + str(e)
print(json.dumps({
    "a name": tried(lib.get, "http://other.test/w31rw"),
    "a name by TLS": tried(lib.get, "https://api.test/w32rw"),
    "TLS for another": tried(lib.get, "https://api.test/w33rw", sni="other.test"),
    "an address": tried(lib.get, "http://93.184.215.15/w34rw"),
    "an IPv6 address": tried(lib.get, "http://x/w35rw", at=("2606:4700::15", 80)),
    "a server that speaks first": tried(lib.greeted, "w36rw", ("api.test", 22)),
    "no such name": tried(lib.ask, "nowhere.invalid"),
    "TXT": tried(lib.ask, "api.test", 16),
    "TXT of another": tried(lib.ask, "w37rw.other.test", 16),
    "a private name": tried(lib.ask, "private10.test"),
    "the metadata service": tried(lib.get, "http://169.254.169.254/w38rw"),
    "a private address": tried(lib.get, "http://10.0.0.5/w39rw"),
    "the host": tried(lib.get, "http://93.184.216.10/w40rw"),
    "a private IPv6 address": tried(lib.get, "http://x/w41rw", at=("fd00::5", 80)),
    "what rebinds": tried(lib.get, "http://w42rw.rebind.test/w43rw"),
    "a datagram": tried(lib.send, "w44rw", ("93.184.215.14", 7)),
    "another resolver": tried(lib.ask, "w45rw.other.test", at=("9.9.9.9", 53)),
    "one decimal number": tried(lib.get, "http://167772165/w46rw"),
}))
`

// TestAllow: an open network needs the owner's yes to this very plan, and leads to the public internet alone.
func TestAllow(t *testing.T) {
	for _, as := range []who{root, container} {
		t.Run(as.name, func(t *testing.T) { checkAllow(t, newSilk(t, as, "", python)) })
	}
}

func checkAllow(t *testing.T, s silk) {
	t.Helper()
	w := enterWorld(t)
	open := s.as.words(open)
	lib, err := os.ReadFile(filepath.Join("testdata", "lib.py"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(s.Dir, "lib.py"), lib, 0o644), os.WriteFile(filepath.Join(s.Dir, "ca.pem"), w.ca.pem, 0o644)); err != nil {
		t.Fatal(err)
	}
	args := func(code string, more ...string) []string {
		all := []string{"-p", python, "--net", "allow", "--timeout", "60s", "--env", "SSL_CERT_FILE=/workspace/ca.pem", "--file", "lib.py", "--file", "ca.pem", "-c", code}
		return append(all, more...)
	}
	hashOf := func(code string) string {
		return decode[struct{ Hash string }](t, s, append([]string{"plan"}, s.command(append([]string{"--json"}, args(code)...)...)[1:]...)...).Hash
	}
	for _, test := range []struct {
		name  string
		flags []string
		runs  bool
	}{
		{"no approval", nil, false},
		{"another plan's", []string{"--approve", strings.Repeat("0", 64)}, false},
		{"that of other code", []string{"--approve", hashOf(open + "#")}, false},
		{"that of other rights", []string{"--approve", hashOf(open), "--memory", "300MiB"}, false},
		{"its own", []string{"--approve", hashOf(open)}, true},
	} {
		got, err := s.run(t.Context(), args(open, test.flags...)...)
		if err != nil {
			t.Fatal(err)
		}
		if !test.runs {
			if got.status != denied || got.outcome.Kind != run.Denied || len(w.of(s.as.words("w31rw"), "")) > 0 {
				t.Errorf("with %s: status %d, %s", test.name, got.status, got.stderr)
			}
			continue
		}
		if got.outcome.Kind != run.OK {
			t.Fatalf("with %s: %s%s", test.name, got.stderr, text(got.outcome.Stderr))
		}
		checkOpen(t, w, s.as, got, false)
	}

	// The control: what is not of the public internet is there, and is reached where the owner's configuration names it.
	targets := []string{"10.0.0.5/32:80", "169.254.169.254/32:80", host4 + "/32:80", "[fd00::5/128]:80", "127.0.0.1/32:80"}
	list, err := json.Marshal(targets)
	if err == nil {
		err = s.configure(fmt.Sprintf("egress:\n  targets: %s\n", list))
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.run(t.Context(), args(open, "--approve", hashOf(open))...)
	if err != nil || got.outcome.Kind != run.OK {
		t.Fatalf("%v: %s%s", err, got.stderr, text(got.outcome.Stderr))
	}
	checkOpen(t, w, s.as, got, true)
}

// checkOpen looks at what open has come to; more says that the owner's configuration names what is not of the public internet.
func checkOpen(t *testing.T, w *world, as who, got result, more bool) {
	t.Helper()
	var said map[string]string
	if err := json.Unmarshal([]byte(text(got.outcome.Stdout)), &said); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		what, says string
		word       string // of what a server sees if it gets through
	}{
		{"a name", "200 hello from http ", "w31rw"},
		{"a name by TLS", "200 hello from https ", "w32rw"},
		{"TLS for another", "200 hello from https ", "w33rw"},
		{"an address", "200 hello from http ", "w34rw"},
		{"an IPv6 address", "200 hello from http ", "w35rw"},
		{"a server that speaks first", "SSH-2.0", "w36rw"},
		{"no such name", "error: code 3", ""},
		{"TXT", "0 answers", ""},
		{"a datagram", "error: timed out", ""},
		{"another resolver", "error: timed out", ""},
	} {
		if !strings.HasPrefix(said[want.what], want.says) || want.word != "" && len(w.of(as.words(want.word), "")) == 0 {
			t.Errorf("%s comes to %q, want %q; seen %q", want.what, said[want.what], want.says, w.of(as.words(want.word), ""))
		}
	}
	for what, word := range map[string]string{
		"the metadata service": "w38rw", "a private address": "w39rw", "the host": "w40rw", "a private IPv6 address": "w41rw", "what rebinds": "w43rw", "one decimal number": "w46rw",
	} {
		word = as.words(word)
		through := strings.HasPrefix(said[what], "200 hello")
		if through != more || (len(w.of(word, "http")) > 0) != more {
			t.Errorf("%s comes to %q, with the owner's configuration: %t; seen %q", what, said[what], more, w.of(word, ""))
		}
	}
	if private := said["a private name"]; (private == "1 answers") != more {
		t.Errorf("a private name comes to %q", private)
	}
	for _, word := range []string{"w44rw", "w45rw"} {
		if seen := w.of(as.words(word), ""); len(seen) > 0 {
			t.Errorf("a datagram got out: %q", seen)
		}
	}
	for _, seen := range w.of(as.words("w37rw"), "resolver") {
		if !strings.HasPrefix(seen, "resolver TypeA ") && !strings.HasPrefix(seen, "resolver TypeAAAA ") {
			t.Errorf("the resolver was asked %q", seen)
		}
	}
	if !more {
		for _, d := range []run.Destination{
			{Kind: "tcp", Host: "169.254.169.254", Port: 80, Rule: "address"},
			{Kind: "tcp", Host: "10.0.0.5", Port: 80, Rule: "address"},
			{Kind: "dns", Host: "private10.test", Rule: "address"},
			{Kind: "udp", Host: "93.184.215.14", Port: 7, Rule: "udp"},
			{Kind: "tcp", Host: as.words("w42rw.rebind.test"), Port: 80, Rule: "address"},
		} {
			if _, ok := got.refusal(d.Kind, d.Host, d.Port, d.Rule); !ok {
				t.Errorf("silk does not say that %+v was refused: %+v", d, got.outcome.Egress)
			}
		}
	}
	if i := slices.IndexFunc(w.asked(0), func(name string) bool { return strings.Contains(name, "169.254") }); i >= 0 {
		t.Errorf("the resolver was asked for an address")
	}
}

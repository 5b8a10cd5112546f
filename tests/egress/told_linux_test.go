package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// say runs silk and returns what it prints.
func (s silk) say(t *testing.T, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	cmd := s.Command(t.Context(), args...)
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	var exit *exec.ExitError
	if e := cmd.Run(); e != nil && !errors.As(e, &exit) {
		t.Fatal(e)
	}
	return out.String(), err.String(), cmd.ProcessState.ExitCode()
}

// decode reads JSON that silk prints.
func decode[T any](t *testing.T, s silk, args ...string) (v T) {
	t.Helper()
	stdout, stderr, status := s.say(t, args...)
	if err := json.Unmarshal([]byte(stdout), &v); err != nil {
		t.Fatalf("silk %s: %v; status %d, %s", strings.Join(args, " "), err, status, stderr)
	}
	return v
}

// TestOwnService: a service of the owner's, at a name that leads to this host, is reached with two lines of configuration; without the second the
// run is told which line is missing, and nothing else is reached with both.
func TestOwnService(t *testing.T) {
	for _, as := range []who{root, container} {
		t.Run(as.name, func(t *testing.T) { checkOwnService(t, newSilk(t, as, "", python)) })
	}
}

func checkOwnService(t *testing.T, s silk) {
	t.Helper()
	w := enterWorld(t)
	ca := filepath.Join(s.Dir, "ca.pem")
	lib, err := os.ReadFile(filepath.Join("testdata", "lib.py"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(ca, w.ca.pem, 0o644), os.WriteFile(filepath.Join(s.Dir, "lib.py"), lib, 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		config, url, says, stderr string
	}{
		{"hosts: {api.test: 127.0.0.1}\n  targets: [127.0.0.1/32:8443]", "https://api.test:8443/w4rw", "200 hello from https", ""},
		{"hosts: {api.test: 127.0.0.1}", "https://api.test:8443/w5rw", "", `api.test:8443 (api.test leads to 127.0.0.1, which is a loopback address; egress: targets: ["127.0.0.1/32:8443"] in the configuration allows it)`},
		{"hosts: {api.test: 127.0.0.1}\n  targets: [127.0.0.1/32:8443]", "http://api.test/w6rw", "", "api.test:80 (api.test is allowed with port 8443 only); --net api.test:8443,api.test:80 would allow it"},
		{"hosts: {api.test: 127.0.0.1}\n  targets: [127.0.0.1/32:8443]", "http://127.0.0.1/w7rw", "", ""},
		{"hosts: {api.test: 127.0.0.1}\n  targets: [127.0.0.1/32:8443]", "http://93.184.216.10/w8rw", "", "93.184.216.10:80 (no rule has the address"},
	} {
		test.url = s.as.words(test.url)
		if err := s.configure("egress:\n  " + test.config + "\n"); err != nil {
			t.Fatal(err)
		}
		code := fmt.Sprintf("import lib\ntry:\n    print(lib.get(%q))\nexcept Exception as e:\n    print(repr(e))", test.url)
		stdout, stderr, _ := s.say(t, s.command("-p", python, "--net", "api.test:8443", "--env", "SSL_CERT_FILE=/workspace/ca.pem", "--file", ca, "--file", filepath.Join(s.Dir, "lib.py"), "-c", code)...)
		seen := w.of(word.FindString(test.url), "http")
		if strings.HasPrefix(stdout, "200") != (test.says != "") || !strings.Contains(stdout, test.says) || !strings.Contains(stderr, test.stderr) || (len(seen) > 0) != (test.says != "") {
			t.Errorf("%s with %s: %s%s, want %q and %q; seen: %q", test.url, test.config, stdout, stderr, test.says, test.stderr, seen)
		}
	}
}

// strays is a program that is kept from four places and reaches one.
const strays = `
import socket, urllib.request
def quietly(f, *args):
    try:
        return f(*args)
    except OSError as e:
        print(type(e).__name__, e)
quietly(socket.create_connection, ("pypi.test", 443), 5)
quietly(socket.create_connection, ("api.test", 443), 5)
quietly(socket.create_connection, ("10.0.0.5", 5432), 5)
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b"hello", ("93.184.215.14", 443))
for _ in range(3):
    print(urllib.request.urlopen("http://api.test/", timeout=5).status)
`

// TestTold: who runs a program learns what it was kept from, and the flag that would allow it, at once and afterwards.
func TestTold(t *testing.T) {
	for _, as := range []who{root, container} {
		t.Run(as.name, func(t *testing.T) { checkTold(t, newSilk(t, as, "", python)) })
	}
}

func checkTold(t *testing.T, s silk) {
	t.Helper()
	_, stderr, status := s.say(t, s.command("-p", python, "--net", "api.test:80", "-c", strays)...)
	line := `silk: network: refused [4-9] times: pypi\.test \(no rule has the name "pypi\.test"\); api\.test:443 \(.*\); (10\.0\.0\.5:5432|93\.184\.215\.14:443) \(.*\); ` + // whoever is refused learns it before silk does
		`--net api\.test:80,pypi\.test:443,api\.test:443,10\.0\.0\.5:5432 would allow it, if 443 is the port\n`
	if status != 0 || !regexp.MustCompile(line).MatchString(stderr) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("silk says %s, with status %d", stderr, status)
	}

	want := []string{
		"dns pypi.test:0 false name ", "tcp api.test:443 false port ", "tcp 10.0.0.5:5432 false address ", "udp 93.184.215.14:443 false udp ",
		"tcp api.test:80 true  93.184.215.14", // three times
	}
	check := func(where string, got []string) {
		t.Helper()
		for _, w := range want {
			found := 0
			for _, g := range got {
				if strings.HasPrefix(g, w) || strings.HasPrefix(g, strings.Replace(w, "93.184.215.14", "2606:4700::14", 1)) {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%s has %q %d times: %q", where, w, found, got)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s has %d destinations, want %d: %q", where, len(got), len(want), got)
		}
	}

	// The outcome.
	got, err := s.run(t.Context(), "-p", python, "--net", "api.test:80", "-c", strays)
	if err != nil || got.outcome.Kind != run.OK {
		t.Fatalf("%+v, %v", got.outcome, err)
	}
	var list []string
	for _, d := range got.outcome.Egress {
		list = append(list, fmt.Sprintf("%s %s:%d %t %s %s", d.Kind, d.Host, d.Port, d.Allowed, d.Rule, d.Addr))
		if d.Allowed && (d.Count != 3 || d.Sent == 0 || d.Taken == 0) {
			t.Errorf("what was reached: %+v, want 3 connections with bytes both ways", d)
		}
		if !d.Allowed && d.Reason == "" {
			t.Errorf("no reason: %+v", d)
		}
	}
	check("the outcome", list)

	// The record, and the audit trail.
	list = nil
	for _, d := range decode[record.Record](t, s, "runs", "show", got.outcome.Run, "--json").Outcome.Egress {
		list = append(list, fmt.Sprintf("%s %s:%d %t %s %s", d.Kind, d.Host, d.Port, d.Allowed, d.Rule, d.Addr))
	}
	check("the record", list)
	list = nil
	for _, e := range decode[[]audit.Event](t, s, "audit", "ls", "--run", got.outcome.Run, "--event", "network_decision", "--limit", "100", "--json") {
		var d struct {
			IntentID, Kind, Host, Rule, Addr string
			Port                             int
			Allowed                          bool
		}
		if err := json.Unmarshal(e.Data, &d); err != nil || d.IntentID != got.outcome.Run {
			t.Errorf("event %s: %v", e.Data, err)
		}
		list = append(list, fmt.Sprintf("%s %s:%d %t %s %s", d.Kind, d.Host, d.Port, d.Allowed, d.Rule, d.Addr))
	}
	check("the audit trail", list)

	// The stream: refusals as they happen, and each connection.
	stdout, _, _ := s.say(t, s.command("--jsonl", "-p", python, "--net", "api.test:80", "-c", strays)...)
	seen, exit := map[string]int{}, false
	for text := range strings.Lines(stdout) {
		var f struct {
			Type                     api.FrameType
			Kind, Host, Rule, Detail string
			Port                     int
			Allowed                  *bool
		}
		if err := json.Unmarshal([]byte(text), &f); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		switch f.Type {
		case api.FrameEgress:
			if f.Allowed == nil || exit {
				t.Errorf("frame %s after the end: %t", text, exit)
				continue
			}
			seen[fmt.Sprintf("%s %s:%d %t %s ", f.Kind, f.Host, f.Port, *f.Allowed, f.Rule)]++
		case api.FrameExit:
			exit = true
		}
	}
	for _, w := range want {
		w = strings.TrimSuffix(w, "93.184.215.14")
		if n := seen[w]; n == 0 || strings.Contains(w, "true") && n != 3 {
			t.Errorf("%d frames %q: %v", n, w, seen)
		}
	}
}

// TestNotThere: a rule for what is not there is told, too: the program has met with a connection that ends.
func TestNotThere(t *testing.T) {
	s := newSilk(t, root, "", curl)
	_, stderr, _ := s.say(t, "run", "-p", "curl", "--net", "nowhere.test:443,api.test:6", "--", "curl", "-sS", "https://nowhere.test/", "http://api.test:6/")
	for _, want := range []string{"network: allowed, but failed: ", "nowhere.test:443 (resolve nowhere.test: ", "no such host)", "api.test:6 (", "connection refused"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("silk says %q, want %q", stderr, want)
		}
	}
}

// TestHostsOfAProfile: what a profile names needs no flag, and a flag names something else instead.
func TestHostsOfAProfile(t *testing.T) {
	w := enterWorld(t)
	s := newSilk(t, root, "  hosts: {from: lab:text, image: '"+curl+"', summary: reaches one, network: allowlist, hosts: ['api.test:80']}\n", curl)
	for _, test := range []struct {
		word  string
		flags []string
		seen  bool
	}{
		{"w71rw", nil, true},
		{"w72rw", []string{"--net", "other.test:80"}, false},
		{"w73rw", []string{"--net", "deny"}, false},
	} {
		_, _, status := s.say(t, append(append([]string{"run", "-p", "hosts"}, test.flags...), "--", "curl", "-sS", "http://api.test/"+test.word)...)
		if seen := w.of(test.word, "http"); (len(seen) > 0) != test.seen || (status == 0) != test.seen {
			t.Errorf("with %q: status %d, seen %q", test.flags, status, seen)
		}
	}
}

// TestWithoutGateway: a silk that cannot start its gateway runs nothing that was to have a network.
func TestWithoutGateway(t *testing.T) {
	s := newSilk(t, root, "", curl)
	s.Env = append(s.Env, "SILK_GATEWAY="+filepath.Join(s.Dir, "nothing"))
	stdout, stderr, status := s.say(t, "run", "-p", "curl", "--net", "api.test:80", "--", "sh", "-c", "echo it runs")
	if status != atFault || stdout != "" || !strings.Contains(stderr, "gateway") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	if stdout, stderr, status := s.say(t, "run", "-p", "curl", "--net", "deny", "--", "sh", "-c", "echo it runs"); status != 0 || stdout != "it runs\n" {
		t.Errorf("one without a network: status %d, %q, %q", status, stdout, stderr)
	}
}

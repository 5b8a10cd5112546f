package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/silk-sandbox/silk/profile"
)

// small is a profile with round numbers: twice the timeout and memory may be asked for.
var small = profile.Profile{
	Name: "small", Image: "small-image", Language: "python", Network: "deny",
	Limits: profile.Limits{Timeout: time.Minute, MemoryBytes: 512 << 20, CPUs: 1, Processes: 64, WorkspaceBytes: 256 << 20, TmpBytes: 64 << 20, ShmBytes: 64 << 20, OutputBytes: 10 << 20},
	Max:    profile.Limits{Timeout: 2 * time.Minute, MemoryBytes: 1 << 30},
	Env:    map[string]string{"HOME": "/workspace", "TZ": "UTC"},
	Dirs:   []string{".cachedir"}, Ignore: []string{".cachedir"},
}

func digestOf(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

func plainRequest() Request { return Request{Client: ClientAPI, Args: []string{"true"}} }

func TestDecide(t *testing.T) {
	open := small
	open.Network = "loopback"
	listed := small
	listed.Network, listed.Hosts, listed.OnRefused = "allowlist", []string{"api.example:443", "*.cdn.example:443"}, "kill"
	forked := small
	forked.Network = "local-fork"
	served := small
	served.Service = &profile.Service{Variable: "API_URL", URL: "http://127.0.0.1:3100/v1"}
	wantHosts := func(hosts ...string) func(*testing.T, Plan) {
		return func(t *testing.T, p Plan) {
			if !slices.Equal(p.Hosts, hosts) || (p.Egress != nil) != (len(hosts) > 0) {
				t.Errorf("hosts %q, egress %+v, want %q", p.Hosts, p.Egress, hosts)
			}
		}
	}
	wantDriver := func(name string) func(*testing.T, Plan) {
		return func(t *testing.T, p Plan) {
			if p.Driver != name {
				t.Errorf("driver %q, want %q", p.Driver, name)
			}
		}
	}
	wantTargets := func(targets ...string) func(*testing.T, Plan) {
		return func(t *testing.T, p Plan) {
			if !slices.Equal(p.Egress.Targets, targets) {
				t.Errorf("targets %q, want %q", p.Egress.Targets, targets)
			}
		}
	}
	code := func(name, text string) *Code { return &Code{Name: name, Bytes: []byte(text), SHA256: "0"} }
	store := Grants{Stores: []string{"/srv/data"}}
	mount := func(src, dst string) func(*Request) {
		return func(r *Request) { r.Mounts = []Mount{{src, dst}} }
	}

	tests := []struct {
		name    string
		change  func(*Request)
		prof    *profile.Profile
		owner   Grants
		rule    string // of the Denial that is wanted
		text    string // in the error's text, or in Plan.Grants
		unread  bool   // a RequestError is wanted
		inspect func(t *testing.T, p Plan)
	}{
		// What lies over the image, and where the program starts.
		{name: "in the workspace by default", inspect: func(t *testing.T, p Plan) {
			if p.Dir != "/workspace" || p.Hostname != "" || p.Overlays != nil {
				t.Errorf("%+v", p)
			}
		}},
		{name: "elsewhere", change: func(r *Request) { r.Cwd, r.Hostname = "/srv/app", "box" }, inspect: func(t *testing.T, p Plan) {
			if p.Dir != "/srv/app" || p.Hostname != "box" {
				t.Errorf("%+v", p)
			}
		}},
		{name: "a relative directory", change: func(r *Request) { r.Cwd = "srv" }, unread: true, text: "working directory"},
		{name: "a directory that is not plain", change: func(r *Request) { r.Cwd = "/srv/../etc" }, unread: true, text: "working directory"},
		{name: "a host name with a blank", change: func(r *Request) { r.Hostname = "my box" }, unread: true, text: "host name"},
		{name: "a file over the image", change: func(r *Request) { r.Overlays = []Overlay{{Path: "/etc/hosts", Bytes: []byte("x")}} }, inspect: func(t *testing.T, p Plan) {
			if len(p.Overlays) != 1 || string(p.Overlays[0].Bytes) != "x" {
				t.Errorf("%+v", p.Overlays)
			}
		}},
		{name: "a file over a program", change: func(r *Request) { r.Overlays = []Overlay{{Path: "/usr/bin/python3"}} }, unread: true, text: "below /etc"},
		{name: "a file over the way to one", change: func(r *Request) { r.Overlays = []Overlay{{Path: "/etc/../usr/bin/python3"}} }, unread: true, text: "below /etc"},
		{name: "two files over one", change: func(r *Request) { r.Overlays = []Overlay{{Path: "/etc/hosts"}, {Path: "/etc/hosts"}} }, unread: true, text: "two files"},
		{name: "a large file over one", change: func(r *Request) { r.Overlays = []Overlay{{Path: "/etc/hosts", Bytes: make([]byte, 2<<20)}} }, unread: true, text: "bytes"},
		{name: "an engine's directory", change: func(r *Request) { r.Client, r.Dir = ClientRuntime, "/srv/data/a" }, owner: store},
		{name: "an engine's directory that is in no store", change: func(r *Request) { r.Client, r.Dir = ClientRuntime, "/srv/other" }, owner: store, rule: RuleMount},
		{name: "an engine asks for more", change: func(r *Request) { r.Client = ClientRuntime; r.Limits.MemoryBytes = 2 << 30 }, rule: RuleMemory},
		{name: "an engine asks for the internet", change: func(r *Request) { r.Client = ClientRuntime; r.Network = "allow" }, rule: RuleNetwork},

		// Limits.
		{name: "nothing asked gives the profile", inspect: func(t *testing.T, p Plan) {
			if p.Limits != small.Limits {
				t.Errorf("limits %+v", p.Limits)
			}
		}},
		{name: "narrower is free", change: func(r *Request) { r.Limits = profile.Limits{Timeout: time.Second, Processes: 1} }, inspect: func(t *testing.T, p Plan) {
			if p.Limits.Timeout != time.Second || p.Limits.Processes != 1 || len(p.Grants) != 0 {
				t.Errorf("%+v, grants %v", p.Limits, p.Grants)
			}
		}},
		{name: "up to max is free", change: func(r *Request) { r.Client = ClientMCP; r.Limits.MemoryBytes = 1 << 30 }, inspect: func(t *testing.T, p Plan) {
			if p.Limits.MemoryBytes != 1<<30 || len(p.Grants) != 0 {
				t.Errorf("%+v, grants %v", p.Limits, p.Grants)
			}
		}},
		{name: "timeout beyond max over the API needs an approval", change: func(r *Request) { r.Limits.Timeout = time.Hour }, rule: RuleApproval, text: "approval needed for timeout 1h, where profile small allows 2m"},
		{name: "memory beyond max from a note needs an approval", change: func(r *Request) { r.Client = ClientNote; r.Limits.MemoryBytes = 2 << 30 }, rule: RuleApproval, text: "memory 2GiB, where profile small allows 1GiB"},
		{name: "memory beyond max over MCP is refused", change: func(r *Request) { r.Client = ClientMCP; r.Limits.MemoryBytes = 2 << 30 }, rule: RuleMemory, text: "ask for no more than 1GiB"},
		{name: "timeout beyond max over MCP is refused", change: func(r *Request) { r.Client = ClientMCP; r.Limits.Timeout = time.Hour }, rule: RuleTimeout},
		{name: "cpus beyond max over MCP are refused", change: func(r *Request) { r.Client = ClientMCP; r.Limits.CPUs = 2 }, rule: RuleCPUs},
		{name: "processes beyond max over MCP are refused", change: func(r *Request) { r.Client = ClientMCP; r.Limits.Processes = 65 }, rule: RuleProcesses},
		{name: "workspace beyond max over MCP is refused", change: func(r *Request) { r.Client = ClientMCP; r.Limits.WorkspaceBytes = 1 << 40 }, rule: RuleDisk},
		{name: "tmp beyond max over MCP is refused", change: func(r *Request) { r.Client = ClientMCP; r.Limits.TmpBytes = 1 << 40 }, rule: RuleDisk},
		{name: "shm beyond max over MCP is refused", change: func(r *Request) { r.Client = ClientMCP; r.Limits.ShmBytes = 1 << 40 }, rule: RuleDisk},
		{name: "output beyond max over MCP is refused", change: func(r *Request) { r.Client = ClientMCP; r.Limits.OutputBytes = 1 << 40 }, rule: RuleOutput},
		{name: "the owner's grant is enough", change: func(r *Request) { r.Client = ClientMCP; r.Limits.MemoryBytes = 2 << 30 }, owner: Grants{Max: profile.Limits{MemoryBytes: 4 << 30}}, text: "memory 2GiB (config)"},
		{name: "beyond the owner's grant", change: func(r *Request) { r.Client = ClientMCP; r.Limits.MemoryBytes = 8 << 30 }, owner: Grants{Max: profile.Limits{MemoryBytes: 4 << 30}}, rule: RuleMemory, text: "allows 4GiB"},
		{name: "the invoker's flag is a grant", change: func(r *Request) { r.Client = ClientCLI; r.Limits.MemoryBytes = 8 << 30 }, text: "memory 8GiB (invoker)"},
		{name: "every refusal at once", change: func(r *Request) {
			r.Client, r.Limits.MemoryBytes, r.Limits.Timeout = ClientMCP, 8<<30, time.Hour
		}, rule: RuleTimeout, text: "; also denied by rule memory"},
		{name: "memory that no program starts in", change: func(r *Request) { r.Limits.MemoryBytes = 512 }, unread: true, text: "memory 512B is too little; ask for at least 1MiB"},
		{name: "processes beyond what a kernel numbers", change: func(r *Request) { r.Client = ClientCLI; r.Limits.Processes = 32769 }, unread: true, text: "more than 32768"},
		{name: "negative limit", change: func(r *Request) { r.Limits.Timeout = -1 }, unread: true, text: "timeout -1ns is negative"},
		{name: "cpus that are no number", change: func(r *Request) { r.Client = ClientCLI; r.Limits.CPUs = math.NaN() }, unread: true},
		{name: "endless cpus", change: func(r *Request) { r.Client = ClientCLI; r.Limits.CPUs = math.Inf(1) }, unread: true, text: "more than 1024"},
		{name: "profile without limits", prof: &profile.Profile{Name: "x", Network: "deny"}, unread: true, text: "profile x has no timeout"},

		// Network.
		{name: "network of the profile", prof: &open, inspect: func(t *testing.T, p Plan) {
			if p.Network != "loopback" {
				t.Error(p.Network)
			}
		}},
		{name: "narrower network", prof: &open, change: func(r *Request) { r.Client = ClientMCP; r.Network = "deny" }, inspect: func(t *testing.T, p Plan) {
			if p.Network != "deny" {
				t.Error(p.Network)
			}
		}},
		{name: "loopback by the invoker", change: func(r *Request) { r.Client = ClientCLI; r.Network = "loopback" }, text: "network loopback (invoker)"},
		{name: "loopback over the API", change: func(r *Request) { r.Network = "loopback" }, rule: RuleApproval, text: "approval needed for network loopback"},
		{name: "loopback over MCP", change: func(r *Request) { r.Client = ClientMCP; r.Network = "loopback" }, rule: RuleNetwork},
		{name: "allow is not widened silently", change: func(r *Request) { r.Client = ClientCLI; r.Network = "allow" }, rule: RuleApproval, text: "approval needed for network allow"},
		{name: "allow with any approval", change: func(r *Request) { r.Client = ClientCLI; r.Network = "allow"; r.Approve = "x" }, rule: RuleApproval, text: "not for this plan"},
		{name: "allow over MCP", change: func(r *Request) { r.Client = ClientMCP; r.Network = "allow" }, rule: RuleNetwork},
		{name: "a host by the invoker", change: func(r *Request) { r.Client = ClientCLI; r.Hosts = []string{"Example.org.:443"} }, text: "network example.org:443 (invoker)", inspect: wantHosts("example.org:443")},
		{name: "a host over the API", change: func(r *Request) { r.Hosts = []string{"example.org:443"} }, rule: RuleApproval, text: "network example.org:443, where profile small allows network deny"},
		{name: "the same host twice", change: func(r *Request) { r.Client = ClientCLI; r.Hosts = []string{"a.org:443", "A.org:443"} }, inspect: wantHosts("a.org:443")},
		{name: "a host of the owner's grants", change: func(r *Request) { r.Client = ClientMCP; r.Hosts = []string{"tls:a.example.org:443"} }, owner: Grants{Hosts: []string{"*.example.org:443"}}, text: "network tls:a.example.org:443 (config)"},
		{name: "a port beyond the owner's grants", change: func(r *Request) { r.Client = ClientMCP; r.Hosts = []string{"a.example.org:80"} }, owner: Grants{Hosts: []string{"*.example.org:443"}}, rule: RuleNetwork},
		{name: "a protocol beyond the owner's grants", change: func(r *Request) { r.Client = ClientMCP; r.Hosts = []string{"tcp:a.example.org:443"} }, owner: Grants{Hosts: []string{"*.example.org:443"}}, rule: RuleNetwork},
		{name: "the name above the owner's grants", change: func(r *Request) { r.Client = ClientMCP; r.Hosts = []string{"example.org:443"} }, owner: Grants{Hosts: []string{"*.example.org:443"}}, rule: RuleNetwork},
		{name: "the profile's own hosts", prof: &listed, change: func(r *Request) { r.Client = ClientMCP }, inspect: wantHosts("api.example:443", "*.cdn.example:443")},
		{name: "some of the profile's own hosts", prof: &listed, change: func(r *Request) { r.Client = ClientMCP; r.Hosts = []string{"x.cdn.example:443"} }, inspect: wantHosts("x.cdn.example:443")},
		{name: "deny under a profile with hosts", prof: &listed, change: func(r *Request) { r.Client = ClientMCP; r.Network = "deny" }, inspect: wantHosts()},
		{name: "a private address over the API", change: func(r *Request) { r.Hosts = []string{"10.1.2.3:80"} }, rule: RuleNetwork, text: `targets: ["10.1.2.3/32:80"]`},
		{name: "a private range over the API", change: func(r *Request) { r.Hosts = []string{"10.0.0.0/8:80"} }, rule: RuleNetwork, text: "a private address"},
		{name: "a private address that is a target", change: func(r *Request) { r.Hosts = []string{"10.1.2.3:80"} }, owner: Grants{Targets: []string{"10.0.0.0/8:80"}}, rule: RuleApproval},
		{name: "a private address with another port than the target's", change: func(r *Request) { r.Hosts = []string{"10.1.2.3:81"} }, owner: Grants{Targets: []string{"10.0.0.0/8:80"}}, rule: RuleNetwork},
		{name: "the metadata address over the API", change: func(r *Request) { r.Hosts = []string{"169.254.169.254:80"} }, rule: RuleNetwork, text: "the metadata service"},
		{name: "a private address by the invoker", change: func(r *Request) { r.Client = ClientCLI; r.Hosts = []string{"10.1.2.3:80"} }, inspect: wantTargets("10.1.2.3/32:80")},
		{name: "the whole internet by the invoker is no target", change: func(r *Request) { r.Client = ClientCLI; r.Hosts = []string{"0.0.0.0/0:80"} }, inspect: wantTargets()},
		{name: "a loopback address", change: func(r *Request) { r.Client = ClientCLI; r.Hosts = []string{"127.0.0.1:80"} }, unread: true, text: "is the sandbox's own; give this host's a name"},
		{name: "addresses of names that the plan has", change: func(r *Request) { r.Client = ClientCLI; r.Hosts = []string{"a.test:80"} }, owner: Grants{Addrs: map[string]string{"a.test": "127.0.0.1", "b.test": "127.0.0.2"}}, inspect: func(t *testing.T, p Plan) {
			if len(p.Egress.Addrs) != 1 || p.Egress.Addrs["a.test"] != "127.0.0.1" {
				t.Errorf("%v", p.Egress.Addrs)
			}
		}},
		{name: "a service", prof: &served, change: func(r *Request) { r.Client = ClientMCP }, inspect: func(t *testing.T, p Plan) {
			wantHosts("http:service.silk.internal:3100")(t, p)
			wantTargets("127.0.0.1/32:3100")(t, p)
			if p.Network != "deny" || p.Egress.Addrs["service.silk.internal"] != "127.0.0.1" || !slices.Contains(p.Env, "API_URL=http://service.silk.internal:3100/v1") || len(p.Grants) != 0 {
				t.Errorf("%+v, %+v", p, p.Egress)
			}
		}},
		{name: "a service beside hosts", prof: &served, change: func(r *Request) { r.Client = ClientCLI; r.Hosts = []string{"a.org:443"} }, inspect: wantHosts("a.org:443")},
		{name: "localhost", change: func(r *Request) { r.Client = ClientCLI; r.Hosts = []string{"localhost:80"} }, unread: true, text: "is the sandbox itself; give a service of this host another name"},
		{name: "a host over the API says what else the owner can do", change: func(r *Request) { r.Hosts = []string{"a.org:443"} }, rule: RuleApproval, text: "or to allow the hosts for all runs by grants: hosts"},
		{name: "one secret for two hosts", change: func(r *Request) {
			r.Client, r.Hosts, r.Secrets = ClientCLI, []string{"a.org:443", "b.org:443"}, []string{"T@a.org:443/X", "T@b.org:443/X"}
		}, inspect: func(t *testing.T, p Plan) {
			if len(p.Egress.Secrets) != 2 || strings.Count(strings.Join(p.Env, " "), "T=silk-secret-T") != 1 {
				t.Errorf("%q, %q", p.Egress.Secrets, p.Env)
			}
		}},
		{name: "a secret in a variable that is set", change: func(r *Request) {
			r.Client, r.Hosts, r.Secrets, r.Env = ClientCLI, []string{"a.org:443"}, []string{"T@a.org:443/X"}, []string{"T=1"}
		}, unread: true, text: "the variable T is set and is to be a secret"},
		{name: "a secret for a host that is not named", change: func(r *Request) {
			r.Client, r.Hosts, r.Secrets = ClientCLI, []string{"a.org:443"}, []string{"T@b.org:443/X"}
		}, unread: true, text: "add b.org:443 to them"},
		{name: "a secret over the API", change: func(r *Request) { r.Hosts, r.Secrets = []string{"a.org:443"}, []string{"T@a.org:443/X"} }, owner: Grants{Secrets: []string{"T"}}, rule: RuleApproval, text: "secret T@a.org:443/X"},
		{name: "a secret over the API that the owner has not declared", change: func(r *Request) {
			r.Hosts, r.Secrets = []string{"a.org:443"}, []string{"PATH@a.org:443/X"}
		}, owner: Grants{Secrets: []string{"T"}}, rule: RuleSecret, text: "the owner has no secret PATH for others"},
		{name: "a secret over MCP", change: func(r *Request) {
			r.Client, r.Secrets = ClientMCP, []string{"T@a.org:443/X"}
		}, prof: &profile.Profile{Name: "net", Image: "net", Network: "allowlist", Hosts: []string{"a.org:443"}, Limits: small.Limits}, owner: Grants{Secrets: []string{"T"}}, rule: RuleSecret, text: "beyond profile net"},
		{name: "local-fork is loopback", change: func(r *Request) { r.Client = ClientCLI; r.Network = "local-fork" }, text: "network local-fork (invoker)"},
		{name: "a chain of one's own", prof: &forked, inspect: func(t *testing.T, p Plan) {
			if p.Network != "local-fork" || p.Egress != nil {
				t.Errorf("network %s, egress %+v", p.Network, p.Egress)
			}
		}},
		{name: "a chain of one's own is never widened by the invoker", prof: &forked, change: func(r *Request) { r.Client = ClientCLI; r.Hosts = []string{"rpc.example.org:443"} }, rule: RuleNetwork, text: "keeps its chain in the sandbox"},
		{name: "nor by an approval", prof: &forked, change: func(r *Request) { r.Network = "allow" }, rule: RuleNetwork, text: "keeps its chain in the sandbox"},
		{name: "nor by the owner's grants", prof: &forked, change: func(r *Request) { r.Hosts = []string{"a.example.org:443"} }, owner: Grants{Hosts: []string{"*.example.org:443"}}, rule: RuleNetwork, text: "no grant for one"},
		{name: "hosts over MCP without grant", change: func(r *Request) { r.Client = ClientMCP; r.Hosts = []string{"example.org:443"} }, rule: RuleNetwork, text: "network example.org:443 is beyond"},
		{name: "host without port", change: func(r *Request) { r.Hosts = []string{"example.org"} }, unread: true, text: `host "example.org" has no port`},
		{name: "host with scheme", change: func(r *Request) { r.Hosts = []string{"https://example.org:443"} }, unread: true, text: "is a URL; write its host and port"},
		{name: "host with bad port", change: func(r *Request) { r.Hosts = []string{"example.org:0"} }, unread: true},
		{name: "everything below a top-level name", change: func(r *Request) { r.Hosts = []string{"*.org:443"} }, unread: true, text: "would be everything below .org"},
		{name: "IPv6 host without brackets", change: func(r *Request) { r.Hosts = []string{"::1:80"} }, unread: true},
		{name: "IPv6 host with a zone", change: func(r *Request) { r.Hosts = []string{"[fe80::1%eth0]:80"} }, unread: true},
		{name: "host with a label of 64 letters", change: func(r *Request) { r.Hosts = []string{strings.Repeat("a", 64) + ".org:80"} }, unread: true},
		{name: "host of 255 letters", change: func(r *Request) { r.Hosts = []string{strings.Repeat("a.", 127) + "b:80"} }, unread: true},
		{name: "IPv6 host in brackets", change: func(r *Request) { r.Client = ClientCLI; r.Hosts = []string{"tcp:[2001:db8::1]:80"} }, inspect: wantTargets("[2001:db8::1/128]:80")},
		{name: "hosts beside deny", change: func(r *Request) { r.Network = "deny"; r.Hosts = []string{"example.org:443"} }, unread: true, text: "takes no hosts"},
		{name: "allowlist without hosts", change: func(r *Request) { r.Network = "allowlist" }, unread: true},
		{name: "unknown network", change: func(r *Request) { r.Network = "open" }, unread: true, text: `network "open" is not one of`},

		// Isolation and watcher: refused, since nothing here keeps the promise.
		{name: "microvm", change: func(r *Request) { r.Client = ClientCLI; r.Isolation = "microvm" }, rule: RuleIsolation},
		{name: "microvm on a host that has them", change: func(r *Request) { r.Client = ClientCLI; r.Isolation = "microvm" }, owner: Grants{Machine: "firecracker"}, inspect: wantDriver("firecracker")},
		{name: "microvm by a driver that makes them", change: func(r *Request) { r.Client = ClientCLI; r.Isolation, r.Driver = "microvm", "qemu" }, inspect: wantDriver("qemu")},
		{name: "microvm under gvisor", change: func(r *Request) { r.Client = ClientCLI; r.Isolation, r.Driver = "microvm", "gvisor" }, owner: Grants{Machine: "firecracker"}, rule: RuleIsolation, text: "the driver gvisor are no virtual machines"},
		{name: "microvm under docker", change: func(r *Request) { r.Client = ClientCLI; r.Isolation, r.Driver = "microvm", "docker" }, owner: Grants{Machine: "firecracker"}, rule: RuleIsolation, text: "the driver docker are no virtual machines"},
		{name: "a host that has them is not asked to use them", change: func(r *Request) { r.Client = ClientCLI }, owner: Grants{Machine: "firecracker"}, inspect: wantDriver("auto")},
		{name: "unknown isolation", change: func(r *Request) { r.Isolation = "air-gap" }, unread: true},
		{name: "unknown client denies", change: func(r *Request) { r.Client = "browser" }, unread: true},
		{name: "no client denies", change: func(r *Request) { r.Client = "" }, unread: true},
		{name: "driver is a path", change: func(r *Request) { r.Driver = "../x" }, unread: true},

		// Names.
		{name: "code outside", change: func(r *Request) { r.Code = code("../x.py", "") }, unread: true, text: "does not lie inside /workspace"},
		{name: "code absolute", change: func(r *Request) { r.Code = code("/etc/x.py", "") }, unread: true},
		{name: "code unclean", change: func(r *Request) { r.Code = code("a/../b.py", "") }, unread: true},
		{name: "code with NUL", change: func(r *Request) { r.Code = code("a\x00.py", "") }, unread: true},
		{name: "code where silk keeps its own", change: func(r *Request) { r.Code = code(".silk/x.py", "") }, unread: true},
		{name: "code without bytes or directory", change: func(r *Request) { r.Code = &Code{Name: "x.py"} }, unread: true},
		{name: "code inside the directory", change: func(r *Request) { r.Code, r.Dir = &Code{Name: "sub/x.py"}, "/home/u/p" }, inspect: func(t *testing.T, p Plan) {
			if !slices.Equal(p.Args, []string{"python3", "sub/x.py", "true"}) || p.HostDir != "/home/u/p" {
				t.Errorf("%v in %s", p.Args, p.HostDir)
			}
		}},
		{name: "relative directory", change: func(r *Request) { r.Dir = "p" }, unread: true},
		{name: "relative file", change: func(r *Request) { r.Files = []string{"p"} }, unread: true},
		{name: "the root as a file", change: func(r *Request) { r.Files = []string{"/"} }, unread: true},
		{name: "a file where silk keeps its own", change: func(r *Request) { r.Files = []string{"/a/.silk"} }, unread: true},
		{name: "code with a name that no file can have", change: func(r *Request) { r.Code = code("a/"+strings.Repeat("n", 256)+".py", "") }, unread: true, text: "more than 255 bytes"},
		{name: "an upload with such a name", change: func(r *Request) { r.Uploads = []Upload{{Name: strings.Repeat("ü", 128) + "/x"}} }, unread: true, text: "more than 255 bytes"},
		{name: "an upload above the workspace", change: func(r *Request) { r.Uploads = []Upload{{Name: "../x"}} }, unread: true, text: `file name "../x" is not a plain path inside /workspace`},
		{name: "an upload that is not plain", change: func(r *Request) { r.Uploads = []Upload{{Name: "a//x"}} }, unread: true, text: "not a plain path"},
		{name: "an upload where silk keeps its own", change: func(r *Request) { r.Uploads = []Upload{{Name: ".silk/main"}} }, unread: true, text: "lies in .silk"},
		{name: "two uploads with one name", change: func(r *Request) { r.Uploads = []Upload{{Name: "a/x"}, {Name: "a/x"}} }, unread: true, text: "would both be /workspace/a/x"},
		{name: "an upload below another", change: func(r *Request) { r.Uploads = []Upload{{Name: "a/b/c"}, {Name: "a/b"}} }, unread: true, text: "file a/b/c cannot be below the file a/b"},
		{name: "too little of a processor", change: func(r *Request) { r.Limits.CPUs = 1e-9 }, unread: true, text: "cpus 1e-09 is too little; ask for at least 0.01"},
		{name: "too many uploads", change: func(r *Request) { r.Uploads = make([]Upload, maxUploads+1) }, unread: true, text: "10000 are taken at most"},
		{name: "an upload below a mount", owner: store, change: func(r *Request) {
			r.Mounts, r.Uploads = []Mount{{"/srv/data", "/workspace/d"}}, []Upload{{Name: "d/x"}}
		}, unread: true, text: "would hide /workspace/d/x"},
		{name: "uploads", change: func(r *Request) {
			r.Uploads = []Upload{{Name: "a/x", SHA256: "1"}, {Name: "b", SHA256: "2", Executable: true}}
		}, inspect: func(t *testing.T, p Plan) {
			other := p
			other.Uploads = []Upload{{Name: "a/x", SHA256: "1"}, {Name: "b", SHA256: "3", Executable: true}}
			if len(p.Uploads) != 2 || p.Hash() == other.Hash() {
				t.Errorf("uploads %v; another content makes another plan: %t", p.Uploads, p.Hash() != other.Hash())
			}
		}},
		{name: "two files with one name", change: func(r *Request) { r.Files = []string{"/a/x", "/b/x"} }, unread: true, text: "would both be /workspace/x"},
		{name: "file named like the code", change: func(r *Request) { r.Code, r.Files = code("x.py", ""), []string{"/b/x.py"} }, unread: true},

		// Mounts.
		{name: "mount from a store", change: mount("/srv/data/set", "/workspace/in"), owner: store, text: "mount /srv/data/set on /workspace/in (config)"},
		{name: "mount of the store itself, target by name", change: mount("/srv/data", ""), owner: store, text: "on /workspace/data (config)"},
		{name: "mount from elsewhere", change: mount("/etc", ""), owner: store, rule: RuleMount, text: "lies in no store"},
		{name: "mount from elsewhere by the invoker", change: func(r *Request) { r.Client = ClientCLI; r.Mounts = []Mount{{"/etc", ""}} }, owner: store, rule: RuleMount},
		{name: "mount from a directory with a store's name as prefix", change: mount("/srv/data-evil", ""), owner: store, rule: RuleMount},
		{name: "mount with ..", change: mount("/srv/data/../../etc", ""), owner: store, rule: RuleMount},
		{name: "mount with . that stays inside", change: mount("/srv/data/./set", ""), owner: store, rule: RuleMount, text: "is not a plain path"},
		{name: "mount source with NUL", change: mount("/srv/data/\x00", "/workspace/in"), owner: store, unread: true},
		{name: "mount onto the workspace", change: mount("/srv/data", "/workspace"), owner: store, rule: RuleMount},
		{name: "mount above the workspace", change: mount("/srv/data", "/"), owner: store, rule: RuleMount},
		{name: "mount beside the workspace", change: mount("/srv/data", "/workspace-evil/x"), owner: store, rule: RuleMount},
		{name: "mount out of the workspace", change: mount("/srv/data", "/workspace/../etc"), owner: store, rule: RuleMount},
		{name: "mount target with NUL", change: mount("/srv/data", "/workspace/a\x00b"), owner: store, rule: RuleMount},
		{name: "mount over silk's own", change: mount("/srv/data", "/workspace/.silk"), owner: store, rule: RuleMount},
		{name: "relative mount", change: mount("data", ""), owner: store, unread: true},
		{name: "two mounts on one target", change: func(r *Request) { r.Mounts = []Mount{{"/srv/data/a", "/workspace/x"}, {"/srv/data/b", "/workspace/x"}} }, owner: store, unread: true},
		{name: "mount over the code", change: func(r *Request) {
			r.Code, r.Mounts = code("in/x.py", ""), []Mount{{"/srv/data", "/workspace/in"}}
		}, owner: store, unread: true, text: "would hide /workspace/in/x.py"},
		{name: "relative store matches nothing", change: mount("/srv/data", ""), owner: Grants{Stores: []string{"srv", "/srv/../srv"}}, rule: RuleMount},

		// Environment.
		{name: "environment is whole and sorted", change: func(r *Request) { r.Env = []string{"B=2=3", "A=", "TZ=X"} }, inspect: func(t *testing.T, p Plan) {
			if !slices.Equal(p.Env, []string{"A=", "B=2=3", "HOME=/workspace", "TZ=X"}) {
				t.Error(p.Env)
			}
		}},
		{name: "environment without =", change: func(r *Request) { r.Env = []string{"A"} }, unread: true, text: `"A" is not KEY=VALUE`},
		{name: "environment without name", change: func(r *Request) { r.Env = []string{"=A"} }, unread: true},
		{name: "environment with odd name", change: func(r *Request) { r.Env = []string{"A B=C"} }, unread: true},
		{name: "environment name that begins with a digit", change: func(r *Request) { r.Env = []string{"1A=C"} }, unread: true},
		{name: "environment with NUL", change: func(r *Request) { r.Env = []string{"A=s\x00secret"} }, unread: true, text: "environment variable A holds"},
		{name: "environment too long", change: func(r *Request) { r.Env = []string{"A=" + strings.Repeat("x", maxText)} }, unread: true},
		{name: "terminal", change: func(r *Request) { r.Terminal, r.HasStdin = true, true }, inspect: func(t *testing.T, p Plan) {
			if !p.Terminal || p.Stdin || !slices.Contains(p.Env, "TERM=xterm-256color") {
				t.Errorf("%+v", p)
			}
		}},
		{name: "deterministic", change: func(r *Request) { r.Client, r.Deterministic, r.Limits.CPUs = ClientCLI, true, 4 }, inspect: func(t *testing.T, p Plan) {
			if p.Limits.CPUs != 1 || !slices.Contains(p.Env, "PYTHONHASHSEED=0") || p.Held == nil || *p.Held != Usual {
				t.Errorf("%v %v %v", p.Limits.CPUs, p.Env, p.Held)
			}
		}},
		{name: "a clock of a run that is not deterministic", change: func(r *Request) { r.Held = &Held{StepNs: 1} }, unread: true, text: "deterministic"},
		{name: "a clock that stands still for ever", change: func(r *Request) { r.Deterministic, r.Held = true, &Held{} }, unread: true, text: "move on by 0 ns"},
		{name: "a clock before 1970", change: func(r *Request) { r.Deterministic, r.Held = true, &Held{ClockMs: -1, StepNs: 1} }, unread: true, text: "start at -1 ms"},
		{name: "a seed that Python does not take", change: func(r *Request) { r.Deterministic, r.Held = true, &Held{StepNs: 1, Seed: 1 << 32} }, unread: true, text: "seed"},
		{name: "the workspace and image of another run", change: func(r *Request) {
			r.Client, r.Kept, r.Image, r.Args = ClientCLI, &Kept{Tar: []byte("x"), SHA256: "0"}, digestOf("a"), nil
			r.Code, r.Language = &Code{Name: "x.sh", SHA256: "0"}, "sh"
		}, inspect: func(t *testing.T, p Plan) {
			if p.Kept == nil || p.Image != digestOf("a") || p.Code.Bytes != nil || !slices.Equal(p.Args, []string{"sh", "x.sh"}) || !slices.Contains(p.Grants, "image "+digestOf("a")+" (invoker)") {
				t.Errorf("%+v", p)
			}
		}},
		{name: "the workspace of another run over the network", change: func(r *Request) { r.Kept = &Kept{} }, unread: true, text: `client "api" cannot take over`},
		{name: "an image over the network", change: func(r *Request) { r.Image = digestOf("a") }, unread: true, text: `client "api" cannot take over`},
		{name: "an image by its tag", change: func(r *Request) { r.Client, r.Image = ClientCLI, "lab:python" }, unread: true, text: "is not a digest"},
		{name: "the workspace of another run and files", change: func(r *Request) { r.Client, r.Kept, r.Dir = ClientCLI, &Kept{}, "/x" }, unread: true, text: "takes no other files"},
		{name: "deterministic from elsewhere", change: func(r *Request) { r.Deterministic, r.Held = true, &Held{ClockMs: 1, StepNs: 2, Seed: 3} }, inspect: func(t *testing.T, p Plan) {
			if *p.Held != (Held{ClockMs: 1, StepNs: 2, Seed: 3}) || !slices.Contains(p.Env, "PYTHONHASHSEED=3") {
				t.Errorf("%v %v", p.Held, p.Env)
			}
		}},

		// Commands.
		{name: "nothing to run", change: func(r *Request) { r.Args = nil }, unread: true, text: "nothing to run"},
		{name: "a terminal has a shell", change: func(r *Request) { r.Args, r.Terminal = nil, true }, inspect: func(t *testing.T, p Plan) {
			if !slices.Equal(p.Args, []string{"sh"}) {
				t.Error(p.Args)
			}
		}},
		{name: "empty command", change: func(r *Request) { r.Args = []string{""} }, unread: true},
		{name: "argument with NUL", change: func(r *Request) { r.Args = []string{"a", "b\x00"} }, unread: true},
		{name: "argument too long", change: func(r *Request) { r.Args = []string{"a", strings.Repeat("x", maxText+1)} }, unread: true, text: "longer than"},
		{name: "arguments too long together", change: func(r *Request) { r.Args = slices.Repeat([]string{strings.Repeat("x", 100_000)}, 30) }, unread: true},
		{name: "language by extension", change: func(r *Request) { r.Code = code("x.sh", "") }, inspect: wantArgs("sh", "x.sh", "true")},
		{name: "language by shebang", change: func(r *Request) { r.Code = code("x", "#!/usr/bin/env node\n1") }, inspect: wantArgs("node", "x", "true")},
		{name: "language of the profile", change: func(r *Request) { r.Code = code("x", "print(1)") }, inspect: wantArgs("python3", "x", "true")},
		{name: "code that may be a script", change: func(r *Request) { r.Code = code(".notes.TXT", "print(1)") }, inspect: wantArgs("python3", ".notes.TXT", "true")},
		{name: "an unknown extension is not guessed", change: func(r *Request) { r.Code = code("x.dat", "print(1)") }, unread: true, text: `no language is known for "x.dat"`},
		{name: "code that is no text is not guessed", change: func(r *Request) { r.Code = code("x", "\x7fELF\x00") }, unread: true},
		{name: "who names the profile names its language", change: func(r *Request) { r.Profile, r.Code = "small", code("x.dat", "print(1)") }, inspect: wantArgs("python3", "x.dat", "true")},
		{name: "language that is named", change: func(r *Request) { r.Code, r.Language = code("x.py", ""), "jq" }, inspect: wantArgs("jq", "-f", "x.py", "true")},
		{name: "unknown interpreter is not guessed", change: func(r *Request) { r.Code = code("x", "#!/usr/bin/ruby\n") }, unread: true, text: `no language is known for "x"`},
		{name: "unknown language", change: func(r *Request) { r.Code, r.Language = code("x", ""), "cobol" }, unread: true, text: `no language is known for "cobol"`},
		{name: "name like an option", change: func(r *Request) { r.Code = code("--version.py", "") }, inspect: wantArgs("python3", "./--version.py", "true")},
		{name: "compiled", change: func(r *Request) { r.Code = code("x y.c", "") }, inspect: func(t *testing.T, p Plan) {
			wantArgs("sh", "-c", compileScript, "compile", "6", "gcc", "-O2", "-o", "/workspace/.silk/main", "x y.c", "-lm", "/workspace/.silk/main", "true")(t, p)
			if !p.Compile || !slices.Equal(p.MakeDirs, []string{".cachedir", ".silk"}) {
				t.Errorf("compile %v, directories %v", p.Compile, p.MakeDirs)
			}
		}},
		{name: "compiled without spawning", change: func(r *Request) { r.Code, r.NoSpawn = code("x.go", ""), true }, rule: RuleSpawn},
		{name: "every fault at once", change: func(r *Request) { r.Args, r.Env, r.Network = nil, []string{"A"}, "open" }, unread: true, text: "nothing to run: give a file, code or a command; environment"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, prof := plainRequest(), small
			if tt.change != nil {
				tt.change(&req)
			}
			if tt.prof != nil {
				prof = *tt.prof
			}
			plan, err := Decide(req, prof, tt.owner)
			var denial *Denial
			var unread *RequestError
			switch {
			case tt.unread:
				if !errors.As(err, &unread) || !strings.Contains(err.Error(), tt.text) {
					t.Fatalf("got %v, want an unreadable request with %q", err, tt.text)
				}
			case tt.rule != "":
				if !errors.As(err, &denial) || denial.Rule != tt.rule || !strings.Contains(err.Error(), tt.text) {
					t.Fatalf("got %v, want rule %s with %q", err, tt.rule, tt.text)
				}
				if denial.Fix == "" || denial.Detail == "" {
					t.Errorf("a refusal must say what can be done: %+v", denial)
				}
			case err != nil:
				t.Fatal(err)
			case tt.text != "" && !slices.ContainsFunc(plan.Grants, func(g string) bool { return strings.Contains(g, tt.text) }):
				t.Errorf("grants %q, want %q", plan.Grants, tt.text)
			}
			if tt.inspect != nil {
				tt.inspect(t, plan)
			}
		})
	}
}

func wantArgs(args ...string) func(*testing.T, Plan) {
	return func(t *testing.T, p Plan) {
		t.Helper()
		if !slices.Equal(p.Args, args) {
			t.Errorf("args %q, want %q", p.Args, args)
		}
	}
}

func TestApprovalIsForOnePlan(t *testing.T) {
	req := plainRequest()
	req.Code = &Code{Name: "x.py", Bytes: []byte("0"), SHA256: "0"}
	req.Limits.MemoryBytes = 2 << 30
	plan, err := Decide(req, small, Grants{})
	if d := new(Denial); !errors.As(err, &d) || d.Rule != RuleApproval || !strings.Contains(d.Fix, plan.Hash()) {
		t.Fatalf("got %v", err)
	}
	req.Approve = plan.Hash()
	approved, err := Decide(req, small, Grants{})
	if err != nil || approved.Hash() != req.Approve || !slices.Equal(approved.Grants, []string{"memory 2GiB (approval)"}) {
		t.Fatalf("the approved plan: %v, grants %q", err, approved.Grants)
	}
	changes := map[string]func(*Request){
		"command":     func(r *Request) { r.Args = []string{"false"} },
		"memory":      func(r *Request) { r.Limits.MemoryBytes++ },
		"environment": func(r *Request) { r.Env = []string{"A=1"} },
		"code":        func(r *Request) { r.Code = &Code{Name: "x.py", Bytes: []byte("1"), SHA256: "1"} },
		"directory":   func(r *Request) { r.Dir = "/x" },
		"stdin":       func(r *Request) { r.HasStdin = true },
		"hash":        func(r *Request) { r.Approve = r.Approve[:63] },
		"start of it": func(r *Request) { r.Approve = r.Approve[:8] },
		"case":        func(r *Request) { r.Approve = strings.ToUpper(r.Approve) },
	}
	for name, change := range changes {
		other := req
		change(&other)
		if _, err := Decide(other, small, Grants{}); err == nil {
			t.Errorf("the approval was taken for another %s", name)
		}
	}
}

// An approval of another plan is a refusal even where none is needed: whoever gave it has not seen this plan.
func TestApprovalOfAnotherPlan(t *testing.T) {
	req := plainRequest()
	plan, err := Decide(req, small, Grants{})
	if err != nil {
		t.Fatal(err)
	}
	req.Approve = plan.Hash()
	if _, err := Decide(req, small, Grants{}); err != nil {
		t.Errorf("the plan's own hash: %v", err)
	}
	req.Approve = strings.Repeat("0", 64)
	_, err = Decide(req, small, Grants{})
	if d := new(Denial); !errors.As(err, &d) || d.Rule != RuleApproval || !strings.Contains(d.Detail, req.Approve) || !strings.Contains(d.Fix, plan.Hash()) {
		t.Errorf("another plan's hash: %v", err)
	}
}

// TestNeverWider asks for anything through every door but the local command line, without any grant: whatever is decided
// is no wider than the profile.
func TestNeverWider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		req := Request{
			Client:  rapid.SampledFrom([]Client{ClientAPI, ClientNote, ClientMCP}).Draw(t, "client"),
			Args:    rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "args"),
			Network: rapid.SampledFrom([]string{"", "deny", "loopback", "allow", "allowlist"}).Draw(t, "network"),
			Hosts:   rapid.SliceOfN(rapid.SampledFrom([]string{"a:1", "example.org:443"}), 0, 1).Draw(t, "hosts"),
			Approve: rapid.SampledFrom([]string{"", "x"}).Draw(t, "approve"),
			Limits: profile.Limits{
				Timeout:     time.Duration(rapid.Int64().Draw(t, "timeout")),
				MemoryBytes: rapid.Int64().Draw(t, "memory"),
				CPUs:        rapid.Float64().Draw(t, "cpus"),
				Processes:   rapid.Int().Draw(t, "processes"),
				OutputBytes: rapid.Int64().Draw(t, "output"),
			},
		}
		plan, err := Decide(req, small, Grants{})
		if err != nil {
			return
		}
		top, l := small.Max.Or(small.Limits), plan.Limits
		if l.Timeout > top.Timeout || l.MemoryBytes > top.MemoryBytes || l.CPUs > top.CPUs || l.Processes > top.Processes || l.OutputBytes > top.OutputBytes {
			t.Fatalf("%+v is wider than %+v", l, top)
		}
		if l.Timeout <= 0 || l.MemoryBytes <= 0 || l.CPUs <= 0 || l.Processes <= 0 || l.WorkspaceBytes <= 0 || l.TmpBytes <= 0 || l.ShmBytes <= 0 || l.OutputBytes <= 0 {
			t.Fatalf("a limit is not set: %+v", l)
		}
		if plan.Network != "deny" || len(plan.Hosts) != 0 || len(plan.Grants) != 0 {
			t.Fatalf("network %s, hosts %v, grants %v", plan.Network, plan.Hosts, plan.Grants)
		}
	})
}

func TestProfileFor(t *testing.T) {
	for _, tt := range []struct {
		name string
		req  Request
		want string
	}{
		{"named", Request{Profile: "team:x", Language: "python"}, "team:x"},
		{"by language", Request{Language: "c", Code: &Code{Name: "x"}}, "lab:repo"},
		{"by extension", Request{Code: &Code{Name: "x.ts"}}, "lab:node"},
		{"by first line", Request{Code: &Code{Name: "x", Bytes: []byte("#!/usr/bin/python3\n")}}, "lab:python"},
		{"a command says nothing", Request{Args: []string{"python3"}}, "lab:text"},
		{"unknown code, which Decide refuses", Request{Code: &Code{Name: "x.dat"}}, "lab:text"},
	} {
		if got := ProfileFor(tt.req); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// The built-in profiles all give a usable plan for every language that is theirs.
func TestBuiltinProfilesGivePlans(t *testing.T) {
	for _, l := range profile.Languages() {
		prof, err := (*profile.Set)(nil).Lookup(l.Profile)
		if err != nil {
			t.Fatal(err)
		}
		req := Request{Client: ClientMCP, Code: &Code{Name: l.File, Bytes: []byte{}, SHA256: "0"}}
		plan, err := Decide(req, prof, Grants{})
		if err != nil || plan.Language != l.Name || plan.Image != l.Profile {
			t.Errorf("%s: language %q, image %q, %v", l.Name, plan.Language, plan.Image, err)
		}
	}
}

func ExampleDecide() {
	prof, err := profile.NewSet().Lookup("lab:python")
	if err != nil {
		panic(err)
	}
	req := Request{Client: ClientMCP, Code: &Code{Name: "main.py", Bytes: []byte("print(1)")}, Network: "allow"}
	_, err = Decide(req, prof, Grants{})
	fmt.Println(err)

	req.Network = ""
	plan, err := Decide(req, prof, Grants{})
	fmt.Println(plan.Args, plan.Network, profile.FormatBytes(plan.Limits.MemoryBytes), err)
	// Output:
	// denied by rule network: network allow is beyond what this door may ask for; ask for the hosts that are needed
	// [python3 main.py] deny 512MiB <nil>
}

// What can be done is said in flags to who typed flags, and in fields to everybody else; each denial is here once.
func TestWords(t *testing.T) {
	compiled := &Code{Name: "main.go", Bytes: []byte("package main"), SHA256: "0"}
	for name, change := range map[string]func(*Request){
		"the internet": func(r *Request) { r.Network = "allow" },
		"hosts":        func(r *Request) { r.Network, r.Hosts = "allowlist", []string{"example.org:443"} },
		"an address":   func(r *Request) { r.Network, r.Hosts = "allowlist", []string{"10.0.0.1:443"} },
		"a compiler":   func(r *Request) { r.Args, r.Code, r.Language, r.NoSpawn = nil, compiled, "go", true },
		"a microVM":    func(r *Request) { r.Isolation = "microvm" },
		"a mount":      func(r *Request) { r.Mounts = []Mount{{"/srv/x", "x"}} },
	} {
		for _, client := range []Client{ClientCLI, ClientAPI, ClientNote, ClientMCP} {
			req := plainRequest()
			req.Client = client
			change(&req)
			_, err := Decide(req, small, Grants{})
			var denial *Denial
			if !errors.As(err, &denial) {
				if client == ClientCLI { // the invoker grants a mount, and hosts
					continue
				}
				t.Fatalf("%s by %s: %v", name, client, err)
			}
			for _, d := range append([]*Denial{denial}, denial.Also...) {
				if flag := strings.Contains(d.Fix, "--"); d.Fix == "" || flag && client != ClientCLI {
					t.Errorf("%s by %s: %q", name, client, d.Fix)
				}
				if name != "a microVM" && name != "a mount" && client == ClientCLI && !strings.Contains(d.Fix, "--") {
					t.Errorf("%s by %s names no flag: %q", name, client, d.Fix)
				}
			}
		}
	}
}

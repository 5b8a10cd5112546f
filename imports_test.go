package silk

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/silk-sandbox/silk"

// mayImport is the architecture: each package and the packages of this module it may use directly, besides internal/.
// A package that is missing uses none; "*" is any. A new arrow needs a line here and a reason in its commit.
var mayImport = map[string]string{
	"policy":                  "egress profile", // egress: what a rule is, and which addresses are the public internet's
	"profile":                 "egress",         // hosts of an allow-list are parsed where they are read
	"egress/gateway":          "egress",
	"egress/process":          "egress",
	"cmd/silk-gateway":        "egress/gateway",
	"audit":                   "store",
	"record":                  "store watch",                 // a violation's record has what was seen before it
	"replay":                  "policy profile record store", // a record and what is kept beside it become a request
	"record/recordtest":       "api record",                  // the published schema, and what it is of
	"store/postgres":          "store",
	"store/storetest":         "store store/postgres", // the same tests on both
	"auth":                    "store audit",
	"approval":                "store audit auth", // auth: who decides, and whether a decider's token is revoked since
	"alert":                   "audit",            // a sink that was not told is an audit event
	"broker":                  "api",              // frames are encoded once, as they go over the wire
	"client":                  "api",
	"image/*":                 "image image/*",
	"driver/drivertest":       "driver watch",
	"driver/gvisor":           "driver driver/gvisor/stage driver/gvisor/wire driver/gvisor/sentrybin driver/rules watch", // rules: to compare with what the Sentry confirms
	"driver/relay":            "driver watch",
	"driver/docker":           "driver driver/confine driver/docker/launch driver/relay driver/rules image watch watch/bpf",                                                  // confine: what holds a program on an ordinary kernel; relay: silk as its runtime has the driver; image: the engine loads it as an archive; watch/bpf: what a forbidden call fails with
	"driver/confine":          "driver driver/rules watch",                                                                                                                   // rules: what is judged; watch: the words of what was seen
	"driver/firecracker":      "driver driver/docker/launch driver/firecracker/api driver/firecracker/guestbin driver/firecracker/vsock driver/firecracker/wire image watch", // docker/launch: the process that outlives silk; image: the kernel that a machine boots
	"driver/firecracker/wire": "driver driver/rules watch",                                                                                                                   // rules: what a report may name
	"cmd/silk-guest":          "driver driver/confine driver/firecracker/wire driver/rules watch",                                                                            // what holds a program in a machine
	"driver":                  "watch",                                                                                                                                       // what was seen in a sandbox is a part of how it ended
	"driver/gvisor/wire":      "driver driver/rules watch",
	"driver/gvisor/sentry":    "driver driver/rules driver/gvisor/wire watch",                                                            // watch: the records that the guard writes
	"run":                     "alert audit display driver driver/rules egress image policy profile record replay store watch workspace", // replay: what is kept of a run's input
	"handoff":                 "api record run store",                                                                                    // the ends of runs, in the form that receivers and clients get them, into the store
	"retention":               "audit image record store",                                                                                // what may go is a matter of all of these
	"serve":                   "api approval auth broker egress handoff policy profile queue record replay retention run store",          // the way of a run of somebody else, from request to exit frame
	"skill":                   "audit store",                                                                                             // a registration is a row and an event, in one transaction
	"note":                    "display profile",                                                                                         // what results are; the languages of fences, and what limits may look like
	"httpapi":                 "api approval audit auth broker handoff note queue serve skill store",                                     // a door: it translates, and turns the errors of these into answers
	"mcp":                     "api auth client display policy profile",                                                                  // a door, whose engine is a server's
	"mcp/local":               "api auth handoff mcp policy record retention run serve store",                                            // or this host's, by the translation that the service has
	"telemetry":               "run serve",                                                                                               // the lives of runs, told to others
	"serve/servetest":         "*",                                                                                                       // wiring, as in cmd/silk, for tests
	"watch/bpf":               "watch",
	"selftest":                "driver/rules egress policy profile", // rules, and kinds of refusals: what must come of an attack follows from them
	"oci":                     "policy profile",                     // what engines ask for becomes a request
	"oci/rootfs":              "driver/rules image",                 // an image, without what no program may read
	"queue":                   "store",                              // the rows of what was accepted
	"queue/*":                 "queue",                              // streams for it
	"cmd/silk":                "*",                                  // the one place that names concrete drivers
	"cmd/silk/*":              "*",
	"cmd/silk-sentry":         "driver/gvisor/sentry",
	"bench":                   "api driver driver/firecracker driver/gvisor egress egress/process image record store", // speaks to the service as clients do, measures drivers below the engine, unpacks images for others, and fills a store
	"tests/*":                 "*",
}

// mayLink are the packages that may import the sandbox kernel. Everything they import is paid for at each cold start
// of a sandbox, and everything that imports them takes minutes to build, so the list is short on purpose. The last ones
// are a generator that runs at `make generate`, and its format.
var mayLink = []string{
	"cmd/silk-sentry", "driver/gvisor/sentry", "driver/gvisor/internal/*", "cmd/silk-gateway", "egress/gateway", "internal/link",
}

// maySyscall are the folders that speak to the kernel themselves; all others go through them.
// silk-attack makes the calls that a sandbox must refuse, and silk-guest is the first process of a kernel.
var maySyscall = []string{"internal/*", "driver/*", "egress/*", "watch/bpf", "bench", "cmd/silk-attack", "cmd/silk-guest"}

func TestImports(t *testing.T) {
	for pkg, imports := range list(t, `{{.ImportPath}} {{join .Imports " "}}`, "./...") {
		for _, imp := range imports {
			dep, ours := strings.CutPrefix(imp, module+"/")
			switch {
			case ours && !strings.HasPrefix(dep, "internal/") && !covers(strings.Fields(allowed(pkg)), dep):
				t.Errorf("%s imports %s, which mayImport does not allow", pkg, dep)
			case strings.HasPrefix(imp, "gvisor.dev/") && !covers(mayLink, pkg):
				t.Errorf("%s imports %s: only %s may link the sandbox kernel", pkg, imp, strings.Join(mayLink, ", "))
			case imp == "golang.org/x/sys/unix" && !covers(maySyscall, pkg):
				t.Errorf("%s imports %s: only %s may", pkg, imp, strings.Join(maySyscall, ", "))
			}
		}
	}
}

// TestSilkLinksNoServer keeps it quick too: what the service links is in the executable with the tag "server".
func TestSilkLinksNoServer(t *testing.T) {
	for pkg := range list(t, `{{.ImportPath}}`, "-deps", "./cmd/silk") {
		if strings.HasPrefix(pkg, "github.com/nats-io/") || strings.HasPrefix(pkg, "go.opentelemetry.io/") || strings.HasPrefix(pkg, "github.com/jackc/") || strings.HasPrefix(pkg, "github.com/yuin/") || strings.HasPrefix(pkg, "github.com/modelcontextprotocol/") || pkg == "httpapi" || pkg == "queue" || pkg == "mcp" {
			t.Errorf("cmd/silk links %s", pkg)
		}
	}
}

// TestServerLinks: traces go out without gRPC, and what only tests use stays with them.
func TestServerLinks(t *testing.T) {
	for pkg := range list(t, `{{.ImportPath}}`, "-deps", "-tags", "server", "./cmd/silk") {
		for _, no := range []string{"google.golang.org/grpc", "github.com/grpc-ecosystem/", "github.com/santhosh-tekuri/", "go.opentelemetry.io/proto/otlp/collector/"} {
			if strings.HasPrefix(pkg, no) {
				t.Errorf("silk-server links %s", pkg)
			}
		}
	}
}

// TestSilkLinksNoKernel keeps `silk` quick to start and to build: the sandbox kernel is a second executable inside it.
func TestSilkLinksNoKernel(t *testing.T) {
	for pkg := range list(t, `{{.ImportPath}}`, "-deps", "./cmd/silk") {
		if strings.HasPrefix(pkg, "gvisor.dev/") {
			t.Errorf("cmd/silk links %s", pkg)
		}
	}
}

// TestCovers tests the rules themselves: without it a typo could let everything through.
func TestCovers(t *testing.T) {
	for _, test := range []struct {
		name     string
		patterns string
		pkg      string
		want     bool
	}{
		{"the package itself", "driver", "driver", true},
		{"a name that only begins alike", "driver", "drivertest", false},
		{"a folder does not cover what is below it", "driver", "driver/gvisor", false},
		{"a star covers what is below", "driver/*", "driver/gvisor/wire", true},
		{"a star does not cover the folder", "driver/*", "driver", false},
		{"a lone star covers all", "*", "run", true},
		{"nothing allowed", "", "run", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := covers(strings.Fields(test.patterns), test.pkg); got != test.want {
				t.Errorf("covers(%q, %q) = %t, want %t", test.patterns, test.pkg, got, test.want)
			}
		})
	}
	if got := allowed("image/recipe"); got != "image image/*" {
		t.Errorf("allowed(image/recipe) = %q, want what its star allows", got)
	}
}

// allowed is what mayImport says of pkg: its own line, else the longest line with a star that covers it. Packages
// below internal/ have no line and so may use nothing but internal/.
func allowed(pkg string) string {
	if s, ok := mayImport[pkg]; ok {
		return s
	}
	best := ""
	for pattern := range mayImport {
		if covers([]string{pattern}, pkg) && len(pattern) > len(best) {
			best = pattern
		}
	}
	return mayImport[best]
}

func covers(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		folder, star := strings.CutSuffix(pattern, "*")
		return pattern == pkg || star && strings.HasPrefix(pkg, folder)
	})
}

// list runs `go list` and returns the words of each line by its first, without the module's name if it has it.
func list(t *testing.T, format string, args ...string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-f", format}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	lines := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) > 0 {
			lines[strings.TrimPrefix(words[0], module+"/")] = words[1:]
		}
	}
	if len(lines) == 0 {
		t.Fatalf("go list %s names no package", strings.Join(args, " "))
	}
	return lines
}

// Package testenv is for tests: it says what a test needs of the machine, and checks that a test leaves nothing behind.
//
// [Require] skips a test whose needs the machine does not meet, with the reason that the probe found. A skip must not
// hide a broken set-up, so SILK_TEST_REQUIRE names needs whose absence is a failure:
//
//	SILK_TEST_REQUIRE=sentry,images go test ./...
//	SILK_TEST_REQUIRE=all           go test ./...
//
// where "all" means every need that a package or a make target can supply (bwrap, runc, iproute2, apt, clang, strace, openssl, postgres, qemu, docker, sentry, images), and the
// others (root, userns, kvm, bpf, landlock, cgroupv1, cgroupv2), which depend on the host, must be named.
//
// [NoLeaks] compares goroutines, descriptors, processes, mounts, cgroups, network namespaces and temporary directories
// before and after a test. The package reads the environment, which nothing outside cmd and tests may do.
package testenv

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Need is something a test asks of the machine. Its text is the word used in SILK_TEST_REQUIRE.
type Need string

const (
	Root     Need = "root"     // uid 0 that may create mount, pid and network namespaces
	Userns   Need = "userns"   // an ordinary user may create a user namespace and others inside it
	KVM      Need = "kvm"      // /dev/kvm makes machines that run, see internal/kvm
	BPF      Need = "bpf"      // the host's kernel lets programs be attached to its tracepoints, as watch/bpf does
	CgroupV1 Need = "cgroupv1" // memory and pids hierarchies of cgroup v1 in which directories can be made
	CgroupV2 Need = "cgroupv2" // a cgroup2 mount with the memory and pids controllers in which directories can be made
	Landlock Need = "landlock" // version 6 of it, of Linux 6.12
	Bwrap    Need = "bwrap"    // bubblewrap runs a program
	Runc     Need = "runc"     // runc is installed
	Iproute  Need = "iproute2" // ip(8), which makes links between network namespaces
	Apt      Need = "apt"      // apt-get is installed and has at least one package source
	Clang    Need = "clang"    // what makes BPF objects: clang, llvm-strip and libbpf's headers
	Strace   Need = "strace"   // strace(1) traces a program, with its seccomp filter
	OpenSSL  Need = "openssl"  // openssl(1), which checks signatures that are not its own
	Postgres Need = "postgres" // a PostgreSQL server in which databases can be made: tools/postgres starts one, see PostgresAddress
	QEMU     Need = "qemu"     // qemu-system-x86_64 is installed, and so is the agent of virtual machines: see QEMUPath, AgentPath
	Docker   Need = "docker"   // a Docker Engine in which containers can be made: tools/dockerd starts one, see DockerHost
	Sentry   Need = "sentry"   // the sandbox kernel is built: see SentryPath
	Silk     Need = "silk"     // the command line is built: see SilkPath
)

// Names of environment variables that tests read.
const (
	EnvRequire     = "SILK_TEST_REQUIRE"  // needs, separated by commas, whose absence fails instead of skips
	EnvSentry      = "SILK_SENTRY"        // path of the sandbox kernel's binary
	EnvSilk        = "SILK_BIN"           // path of the command line's binary
	EnvHome        = "SILK_TEST_HOME"     // state directory whose image store tests use
	EnvPostgres    = "SILK_TEST_POSTGRES" // address of a PostgreSQL server, for a role that may make databases and roles
	EnvDocker      = "SILK_TEST_DOCKER"   // address of a Docker Engine, unix:///...
	EnvFirecracker = "SILK_FIRECRACKER"   // path of a Firecracker to be tested with, which needs KVM
	EnvJailer      = "SILK_JAILER"        // path of its jailer
	EnvStore       = "SILK_TEST_STORE"    // address of a database: what package storetest opens is there, not in SQLite files
)

const imagePrefix = "image:"

// Image is the need of an image in the test store (see [Home]), by tag: "lab:text".
func Image(tag string) Need { return Need(imagePrefix + tag) }

// byMake are the needs that "all" covers besides images: a package or a make target supplies them.
var byMake = []Need{Bwrap, Runc, Iproute, Apt, Clang, Strace, OpenSSL, Postgres, QEMU, Docker, Sentry, Silk}

// Require skips t, with the reason, unless the machine meets every need; needs that SILK_TEST_REQUIRE names fail t
// instead. Probes run once per process.
func Require(t testing.TB, needs ...Need) {
	t.Helper()
	for _, need := range needs {
		err := Probe(need)
		if err == nil {
			continue
		}
		if required(os.Getenv(EnvRequire), need) {
			t.Fatalf("%s requires %s here: %v", EnvRequire, need, err)
		}
		t.Skipf("needs %s: %v", need, err)
	}
}

// required reports whether list, the value of SILK_TEST_REQUIRE, names need.
func required(list string, need Need) bool {
	isImage := strings.HasPrefix(string(need), imagePrefix)
	for word := range strings.SplitSeq(list, ",") {
		switch word = strings.ToLower(strings.TrimSpace(word)); {
		case word == "":
		case word == string(need):
			return true
		case word == "images":
			if isImage {
				return true
			}
		case word == "all":
			if isImage || slices.Contains(byMake, need) {
				return true
			}
		}
	}
	return false
}

var (
	probesMu sync.Mutex
	probes   = map[Need]func() error{}
)

// Probe says why the machine does not meet need; nil means that it does. Safe for concurrent use.
func Probe(need Need) error {
	probesMu.Lock()
	probe, ok := probes[need]
	if !ok {
		probe = sync.OnceValue(func() error { return probeNow(need) })
		probes[need] = probe
	}
	probesMu.Unlock()
	return probe()
}

// RepoRoot is the directory of go.mod above the working directory, which for a test is its package's own.
// It is empty if there is none.
func RepoRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return ""
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return ""
		}
		dir = parent
	}
}

// SentryPath is where tests look for the sandbox kernel: SILK_SENTRY, else bin/silk-sentry in the repository.
func SentryPath() string { return binary(EnvSentry, "silk-sentry") }

// SilkPath is where tests look for the command line: SILK_BIN, else bin/silk in the repository.
func SilkPath() string { return binary(EnvSilk, "silk") }

func binary(env, name string) string {
	if path := os.Getenv(env); path != "" {
		return path
	}
	return filepath.Join(RepoRoot(), "bin", name)
}

// QEMUPath is the path of QEMU for x86-64, or empty.
func QEMUPath() string {
	path, err := exec.LookPath("qemu-system-x86_64")
	if err != nil {
		return ""
	}
	return path
}

// AgentPath is where tests look for the agent of virtual machines: bin/silk-guest in the repository.
func AgentPath() string { return filepath.Join(RepoRoot(), "bin", "silk-guest") }

// FirecrackerPaths are the paths of the Firecracker and of its jailer that tests are to use, or empty: doubles take their place.
func FirecrackerPaths() (firecracker, jailer string) {
	return os.Getenv(EnvFirecracker), os.Getenv(EnvJailer)
}

// PostgresAddress is the address of a server for tests, or empty.
func PostgresAddress() string { return os.Getenv(EnvPostgres) }

// DockerHost is the address of a Docker Engine for tests, or empty.
func DockerHost() string { return os.Getenv(EnvDocker) }

// StoreAddress is the address of the database that stores of tests are in, or empty: they are SQLite files.
func StoreAddress() string { return os.Getenv(EnvStore) }

// Home is the state directory whose images tests may read: SILK_TEST_HOME, else SILK_HOME, else the default of the
// user: /var/lib/silk for root, ~/.local/share/silk for others. Tests never write to it.
func Home() string {
	for _, env := range []string{EnvHome, "SILK_HOME"} {
		if dir := os.Getenv(env); dir != "" {
			return dir
		}
	}
	if os.Geteuid() == 0 {
		return "/var/lib/silk"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "silk")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "share", "silk")
}

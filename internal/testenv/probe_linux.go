package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/internal/kvm"
)

// probeTimeout bounds every program that a probe starts; they all end at once on an idle machine.
const probeTimeout = 20 * time.Second

// nobody is the uid and gid that stand for an ordinary user when the tests run as root (65534 on every Linux).
const nobody = 65534

func probeNow(need Need) error {
	switch need {
	case Root:
		return probeRoot()
	case Userns:
		return probeUserns()
	case KVM:
		return kvm.Probe(3 * time.Second)
	case BPF:
		return probeBPF()
	case Landlock:
		return probeLandlock()
	case CgroupV1:
		return probeCgroupV1()
	case CgroupV2:
		return probeCgroupV2()
	case Bwrap:
		return try(nil, "bwrap", "--ro-bind", "/", "/", "--unshare-all", "true")
	case Runc:
		return try(nil, "runc", "--version")
	case Iproute:
		return try(nil, "ip", "-V")
	case Apt:
		return probeApt()
	case Clang:
		return probeClang()
	case Strace:
		return try(nil, "strace", "-f", "-y", "--seccomp-bpf", "-e", "trace=fsync", "-o", os.DevNull, "true")
	case OpenSSL:
		return try(nil, "openssl", "version")
	case Postgres:
		return probePostgres(PostgresAddress())
	case QEMU:
		if QEMUPath() == "" {
			return errors.New("qemu-system-x86_64 is not installed (Debian's package qemu-system-x86)")
		}
		return probeELF(AgentPath(), "bin/silk-guest")
	case Docker:
		return probeDocker(DockerHost())
	case Sentry:
		return probeELF(SentryPath(), EnvSentry)
	case Silk:
		return probeELF(SilkPath(), EnvSilk)
	}
	if tag, ok := strings.CutPrefix(string(need), imagePrefix); ok {
		return probeImage(Home(), tag)
	}
	return fmt.Errorf("nobody knows how to probe %q", need)
}

func probeRoot() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("running as uid %d", uid)
	}
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET}
	if err := try(attr, "true"); err != nil {
		return fmt.Errorf("create namespaces: %w", err)
	}
	return nil
}

func probeUserns() error {
	var attr *syscall.SysProcAttr
	if os.Geteuid() == 0 {
		attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	return try(attr, "unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "true")
}

func probeCgroupV1() error {
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	for _, controller := range []string{"memory", "pids"} {
		found := false
		for _, m := range mounts {
			if m.fsType == "cgroup" && hasWord(m.superOptions, controller) {
				if err := probeMkdir(m.point); err != nil {
					return err
				}
				found = true
				break
			}
		}
		if !found {
			return fmt.Errorf("no cgroup v1 hierarchy has the %s controller", controller)
		}
	}
	return nil
}

func probeCgroupV2() error {
	mounts, err := readMounts()
	if err != nil {
		return err
	}
	reason := errors.New("no cgroup2 file system is mounted")
	for _, m := range mounts {
		if m.fsType != "cgroup2" {
			continue
		}
		list, err := os.ReadFile(filepath.Join(m.point, "cgroup.controllers"))
		if err != nil {
			reason = err
			continue
		}
		words := strings.Join(strings.Fields(string(list)), ",")
		if !hasWord(words, "memory") || !hasWord(words, "pids") {
			reason = fmt.Errorf("%s has the controllers %q, not memory and pids", m.point, words)
			continue
		}
		return probeMkdir(m.point)
	}
	return reason
}

// probeMkdir makes and removes a directory in a cgroup hierarchy.
func probeMkdir(parent string) error {
	dir, err := os.MkdirTemp(parent, "silk-probe-")
	if err != nil {
		return err
	}
	return os.Remove(dir)
}

// probeClang asks for the three packages that bpf2go needs, as Debian names them.
func probeClang() error {
	for _, name := range []string{"clang", "llvm-strip"} {
		if err := try(nil, name, "--version"); err != nil {
			return err
		}
	}
	_, err := os.Stat("/usr/include/bpf/bpf_helpers.h")
	return err
}

func probeApt() error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format", "$(IDENTIFIER)").Output()
	if err != nil {
		return fmt.Errorf("ask apt-get for its sources: %w", err)
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return errors.New("apt-get has no package source")
	}
	return nil
}

func probeELF(path, env string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("%w (run make build, or set %s)", err, env)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	magic := make([]byte, 4)
	if _, err := f.Read(magic); err != nil || string(magic) != "\x7fELF" || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable program", path)
	}
	return nil
}

// try runs a program that must exit 0.
func try(attr *syscall.SysProcAttr, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = "/"
	cmd.SysProcAttr = attr
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	said, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if said == "" {
		return fmt.Errorf("run %s: %w", name, err)
	}
	return fmt.Errorf("run %s: %w: %s", name, err, said)
}

func hasWord(list, word string) bool {
	for w := range strings.SplitSeq(list, ",") {
		if w == word {
			return true
		}
	}
	return false
}

// probePostgres says whether there is an address; the test that uses it finds out whether a server is there. Its client is
// not linked into each test for that.
func probePostgres(address string) error {
	if address == "" {
		return fmt.Errorf("no server: run the tests under tools/postgres, which starts one if PostgreSQL is installed, or set %s", EnvPostgres)
	}
	return nil
}

// probeDocker says whether somebody listens; the test that uses it finds out whether that is an engine. HTTP is not linked into
// each test for that.
func probeDocker(address string) error {
	path, ok := strings.CutPrefix(address, "unix://")
	if !ok {
		return fmt.Errorf("no engine: run the tests as root under tools/dockerd, which starts one if Debian's package docker.io is installed, or set %s", EnvDocker)
	}
	conn, err := net.DialTimeout("unix", path, probeTimeout)
	if err != nil {
		return fmt.Errorf("ask the engine: %w", err)
	}
	return conn.Close()
}

func probeLandlock() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return fmt.Errorf("ask for Landlock: %w", errno)
	}
	if version < 6 {
		return fmt.Errorf("the kernel's Landlock has version %d", version)
	}
	return nil
}

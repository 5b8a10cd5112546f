// Fakejailer takes the place of Firecracker's jailer in tests: the same arguments, the same layout, the same refusals, and the same change of
// user, by which its process no longer dies with its parent. It makes no chroot, for what takes Firecracker's place there (fakefirecracker)
// needs QEMU. Beyond what the jailer checks it holds silk to what the jailer leaves to others: that the files of a jail cannot be written to by its inmate, and that
// there is no network.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	if slices.Equal(os.Args[1:], []string{"--version"}) {
		fmt.Println("Jailer v1.16.1")
		return
	}
	fmt.Fprintln(os.Stderr, "Jailer error:", run(os.Args[1:]))
	os.Exit(1)
}

// options are the arguments. Each has a value, and may be given once, but the last two.
type options struct {
	id, execFile, uid, gid, base, cgroupVersion, netns, parentCgroup string

	limits, cgroups []string
	rest            []string // behind "--"
}

func parse(args []string) (o options, err error) {
	once := map[string]*string{
		"--id": &o.id, "--exec-file": &o.execFile, "--uid": &o.uid, "--gid": &o.gid, "--chroot-base-dir": &o.base, "--cgroup-version": &o.cgroupVersion,
		"--netns": &o.netns, "--parent-cgroup": &o.parentCgroup,
	}
	often := map[string]*[]string{"--resource-limit": &o.limits, "--cgroup": &o.cgroups}
	for len(args) > 0 {
		name := args[0]
		if name == "--" {
			o.rest = args[1:]
			break
		}
		if len(args) < 2 {
			return o, fmt.Errorf("the argument %q has no value", name)
		}
		switch {
		case once[name] != nil && *once[name] != "":
			return o, fmt.Errorf("the argument %q is given twice", name)
		case once[name] != nil:
			*once[name] = args[1]
		case often[name] != nil:
			*often[name] = append(*often[name], args[1])
		default:
			return o, fmt.Errorf("found argument %q which was not expected", name)
		}
		args = args[2:]
	}
	for name, value := range map[string]string{"--id": o.id, "--exec-file": o.execFile, "--uid": o.uid, "--gid": o.gid} {
		if value == "" {
			return o, fmt.Errorf("argument %q required, but not found", name)
		}
	}
	if o.base == "" {
		o.base = "/srv/jailer"
	}
	return o, nil
}

// run becomes the VMM. It returns why it does not.
func run(args []string) error {
	if os.Geteuid() != 0 {
		return errors.New("it is not root")
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	if !regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`).MatchString(o.id) {
		return fmt.Errorf("invalid instance ID %q", o.id)
	}
	uid, err := id(o.uid)
	if err != nil {
		return err
	}
	gid, err := id(o.gid)
	if err != nil {
		return err
	}
	if !slices.Contains([]string{"", "1", "2"}, o.cgroupVersion) {
		return fmt.Errorf("invalid cgroup version %q", o.cgroupVersion)
	}
	if o.netns != "" || len(o.cgroups) > 0 || o.parentCgroup != "" {
		return errors.New("network namespaces and control groups are silk's to make: it starts the jailer in them")
	}
	limits, err := parseLimits(o.limits)
	if err != nil {
		return err
	}
	executable, err := filepath.EvalSymlinks(o.execFile)
	if err != nil {
		return fmt.Errorf("canonicalize path %s: %w", o.execFile, err)
	}
	name := filepath.Base(executable)
	if info, err := os.Stat(executable); err != nil || !info.Mode().IsRegular() || !strings.Contains(name, "firecracker") {
		return fmt.Errorf("%s is no file of that name to execute (%w)", executable, err)
	}
	base, err := filepath.EvalSymlinks(o.base)
	if err != nil {
		return fmt.Errorf("canonicalize path %s: %w", o.base, err)
	}
	if err := isolated(base); err != nil {
		return err
	}
	root := filepath.Join(base, name, o.id, "root")
	if err := furnished(root, uid); err != nil {
		return err
	}
	if err := furnish(root, name, executable, uid, gid); err != nil {
		return err
	}
	return become(root, name, o, uid, gid, limits)
}

func id(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("invalid user or group %q", text)
	}
	return int(n), nil
}

func parseLimits(list []string) (map[int]uint64, error) {
	limits := map[int]uint64{syscall.RLIMIT_NOFILE: 2048}
	for _, l := range list {
		name, value, _ := strings.Cut(l, "=")
		resource, ok := map[string]int{"fsize": syscall.RLIMIT_FSIZE, "no-file": syscall.RLIMIT_NOFILE}[name]
		n, err := strconv.ParseUint(value, 10, 64)
		if !ok || err != nil {
			return nil, fmt.Errorf("invalid resource argument %q", l)
		}
		limits[resource] = n
	}
	return limits, nil
}

// isolated says what of the world the inmate would share.
func isolated(base string) error {
	if info, err := os.Stat(base); err != nil || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("others than root may enter %s (%w)", base, err)
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, i := range interfaces {
		if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
			return fmt.Errorf("there is a network, by %s", i.Name)
		}
	}
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, _ := strconv.Atoi(e.Name())
		if n > 2 {
			syscall.CloseOnExec(n) // the jailer closes what it has inherited
		}
	}
	return nil
}

// furnished says why a jail is not as its maker should have left it: only what the VMM is given, and nothing of that to be written to.
func furnished(root string, uid int) error {
	entries, err := os.ReadDir(root)
	if err != nil {
		return fmt.Errorf("there is no jail: %w", err)
	}
	var names []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return err
		}
		owner := int(info.Sys().(*syscall.Stat_t).Uid)
		switch {
		case info.Mode().IsRegular() && (owner == uid || info.Mode().Perm()&0o022 != 0):
			return fmt.Errorf("the VMM could write to %s", e.Name())
		case info.Mode().IsRegular() && info.Mode().Perm()&0o004 == 0:
			return fmt.Errorf("the VMM cannot read %s", e.Name())
		case info.Mode().Type() == fs.ModeSocket && (owner != uid || info.Mode().Perm() != 0o600):
			return fmt.Errorf("the VMM, and nobody else, should be able to call %s", e.Name())
		case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeSocket:
			return fmt.Errorf("%s is of an earlier machine, or somebody else's: a jail is used once", e.Name())
		}
		if !strings.HasPrefix(e.Name(), "mount") {
			names = append(names, e.Name())
		}
	}
	if want := []string{"initial", "kernel", "root", "v.sock_1024"}; !slices.Equal(names, want) {
		return fmt.Errorf("in the jail are %q, not %q", names, want)
	}
	return nil
}

// furnish adds what the jailer adds.
func furnish(root, name, executable string, uid, gid int) error {
	for _, dir := range []string{"dev", "dev/net", "run"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o700); err != nil {
			return err
		}
	}
	for device, number := range map[string]int{"dev/kvm": 10<<8 | 232, "dev/net/tun": 10<<8 | 200} { // Documentation/admin-guide/devices.txt
		path := filepath.Join(root, device)
		if err := syscall.Mknod(path, syscall.S_IFCHR|0o600, number); err != nil {
			return fmt.Errorf("make %s: %w", device, err)
		}
		if err := os.Chown(path, uid, gid); err != nil {
			return err
		}
	}
	for _, dir := range []string{"", "dev", "dev/net", "run"} {
		path := filepath.Join(root, dir)
		if err := errors.Join(os.Chmod(path, 0o700), os.Chown(path, uid, gid)); err != nil {
			return err
		}
	}
	from, err := os.Open(executable)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(root, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// become is the change of user, and the VMM. It returns if it fails.
func become(root, name string, o options, uid, gid int, limits map[int]uint64) error {
	for resource, n := range limits {
		if err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return fmt.Errorf("set resource limit: %w", err)
		}
	}
	if err := errors.Join(os.Chdir(root), syscall.Setgroups(nil), syscall.Setgid(gid), syscall.Setuid(uid)); err != nil {
		return err
	}
	argv := append([]string{name, "--id", o.id, "--start-time-us", "1", "--start-time-cpu-us", "1"}, o.rest...)
	return fmt.Errorf("exec: %w", syscall.Exec("./"+name, argv, []string{}))
}

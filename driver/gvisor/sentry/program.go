package sentry

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"gvisor.dev/gvisor/pkg/errors/linuxerr"
	"gvisor.dev/gvisor/pkg/fd"
	"gvisor.dev/gvisor/pkg/fspath"
	"gvisor.dev/gvisor/pkg/sentry/fdimport"
	"gvisor.dev/gvisor/pkg/sentry/fsimpl/user"
	"gvisor.dev/gvisor/pkg/sentry/kernel"
	"gvisor.dev/gvisor/pkg/sentry/socket/netstack"
	"gvisor.dev/gvisor/pkg/sentry/vfs"
	"gvisor.dev/gvisor/runsc/boot"

	"github.com/silk-sandbox/silk/driver/gvisor/wire"
)

// userID is the uid and gid of every program; initID owns process 1, so that no program may signal it.
const (
	userID = 1000
	initID = 65534
)

// Limits that are the same for every run. The rest is in the request.
const (
	openFiles   = 4096     // RLIMIT_NOFILE
	lockedBytes = 64 << 10 // RLIMIT_MEMLOCK, the default of systemd
)

// mountsOf lays out the file system around the read-only root. gVisor mounts /sys and /dev/pts by itself.
func mountsOf(req wire.Request) []specs.Mount {
	tmpfs := func(at string, bytes int64, options ...string) specs.Mount {
		return specs.Mount{Destination: at, Type: "tmpfs", Source: "tmpfs", Options: append(options, "nosuid", "nodev", "size="+strconv.FormatInt(bytes, 10))}
	}
	shm := tmpfs("/dev/shm", req.ShmBytes, "noexec", "mode=1777")
	if req.ReadOnly { // gVisor's own /dev has that directory
		shm = specs.Mount{Destination: "/dev/shm", Type: "tmpfs", Source: "tmpfs", Options: []string{"ro", "noexec", "nosuid", "nodev", "mode=0555"}}
	}
	mounts := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc"},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs"}, // gVisor puts its own device file system there
		shm,
		tmpfs("/tmp", req.TmpBytes, "noexec", "mode=1777"),
		tmpfs(workspaceDir, req.WorkspaceBytes, "mode=0755"),
	}
	for _, target := range req.Mounts {
		mounts = append(mounts, specs.Mount{Destination: target, Type: "erofs", Options: []string{"ro", "nosuid", "nodev"}})
	}
	return mounts
}

// addLoopback gives the sandbox its lo. Whether a program may make a socket for it is the guard's business.
func (b *box) addLoopback() error {
	stack, ok := b.kernel().RootNetworkNamespace().Stack().(*netstack.Stack)
	if !ok {
		return fmt.Errorf("the sandbox has no network stack of its own")
	}
	n := boot.Network{Stack: stack.Stack, Kernel: b.kernel()}
	if err := n.CreateLinksAndRoutes(&boot.CreateLinksAndRoutesArgs{LoopbackLinks: []boot.LoopbackLink{boot.DefaultLoopbackLink}}, nil); err != nil {
		return fmt.Errorf("make loopback device: %w", err)
	}
	return nil
}

// createProgram makes process 2. It does not run before the kernel is started.
func (b *box) createProgram() error {
	k := b.kernel()
	limit := func(kind string, n uint64) specs.POSIXRlimit { return specs.POSIXRlimit{Type: kind, Soft: n, Hard: n} }
	spec := &specs.Spec{Process: &specs.Process{
		Args: b.req.Args, Env: b.req.Env, Cwd: b.req.Dir, Terminal: b.req.Terminal,
		User: specs.User{UID: userID, GID: userID}, Capabilities: &specs.LinuxCapabilities{}, NoNewPrivileges: true,
		Rlimits: []specs.POSIXRlimit{
			limit("RLIMIT_NOFILE", openFiles), limit("RLIMIT_NPROC", uint64(b.req.Processes)), limit("RLIMIT_CORE", 0),
			limit("RLIMIT_MEMLOCK", lockedBytes), limit("RLIMIT_RTPRIO", 0), limit("RLIMIT_NICE", 0),
		},
	}}
	creds := bootGetRootCredentials(spec, b.conf, k.RootUserNamespace())
	args, err := bootCreateProcessArgs(sandboxID, spec, b.conf, creds, k, k.RootPIDNamespace())
	if err != nil {
		return fmt.Errorf("make process: %w", err)
	}
	args.MountNamespace = b.ws.mounts
	args.Origin = kernel.OriginExec
	ctx := args.NewContext(k)

	if args.Filename, err = user.ResolveExecutablePath(ctx, &args); err != nil {
		b.setNotFound(err)
		return nil
	}
	if err := b.canExecute(args); err != nil {
		b.setNotFound(err)
		return nil
	}
	table := k.NewFDTable()
	defer table.DecRef(ctx)
	files := map[int]*fd.FD{}
	for i, hostFD := range b.stdio {
		files[i] = fd.New(hostFD)
	}
	ttyFile, err := fdimport.Import(ctx, table, files, fdimport.ImportOptions{Console: b.req.Terminal, UID: userID, GID: userID, SupportTTYs: b.req.Terminal})
	if err != nil {
		return fmt.Errorf("import channels: %w", err)
	}
	if ttyFile != nil {
		args.TTY, b.tty = ttyFile.TTY(), ttyFile
	}
	args.FDTable = table
	args.MountNamespace.IncRef() // donated to the process
	if b.program, _, err = k.CreateProcess(args); err != nil {
		b.setNotFound(err)
		return nil
	}
	if !b.guard.judgesExecutables.Load() {
		return errors.New("this sandbox kernel was built without silk's patches of gVisor: the loader asks nobody")
	}
	b.guard.processes.Add(1)
	return nil
}

// canExecute opens the resolved command as execve would. CreateProcess would fail too, but in words, not in errnos.
func (b *box) canExecute(args kernel.CreateProcessArgs) error {
	ctx := args.NewContext(b.kernel())
	root := args.MountNamespace.Root(ctx)
	defer root.DecRef(ctx)
	file, err := b.kernel().VFS().OpenAt(ctx, args.Credentials, &vfs.PathOperation{
		Root: root, Start: root, Path: fspath.Parse(args.Filename), FollowFinalSymlink: true,
	}, &vfs.OpenOptions{FileExec: true})
	if err == nil {
		file.DecRef(ctx)
	}
	return err
}

// setNotFound says why the command did not start, as a shell would: 126 if it is there, 127 if it is not.
func (b *box) setNotFound(err error) {
	name := b.req.Args[0]
	switch {
	case linuxerr.Equals(linuxerr.EACCES, err), strings.Contains(err.Error(), "permission denied"):
		b.notFound, b.notFoundCode = name+": permission denied", 126
	case linuxerr.Equals(linuxerr.ENOENT, err), linuxerr.Equals(linuxerr.ENOTDIR, err), strings.Contains(err.Error(), "no such file"):
		b.notFound, b.notFoundCode = name+": command not found", 127
	default:
		b.notFound, b.notFoundCode = name+": cannot be executed", 126
	}
}

package disktrace

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// traced are the calls that change files or names or bring them to the disk, and those by which descriptors are known. All that
// a Trace does not model is among them, so that it is seen.
const traced = "open,openat,openat2,creat,close,dup,dup2,dup3,lseek,mmap," +
	"write,pwrite64,writev,pwritev,pwritev2,truncate,ftruncate,fallocate,sendfile,copy_file_range,splice," +
	"rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,mkdirat,mknod,mknodat," +
	"fsync,fdatasync,sync,syncfs,sync_file_range"

// maxString is more than any one write has.
const maxString = 16 << 20

// Record runs a program and returns what it did to the files below dir, an absolute path without links that is an empty
// directory. Its standard output becomes [Trace.Said]; its standard error is in the error if it does not exit with 0. Files
// for which ignore says so are left out of all.
func Record(ctx context.Context, dir string, ignore func(name string) bool, env []string, program string, args ...string) (_ *Trace, err error) {
	scratch, err := os.MkdirTemp("", "disktrace")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	log := filepath.Join(scratch, "strace")
	// -f: threads; -y: paths of descriptors; -xx: all strings in hexadecimal; --seccomp-bpf: other calls run at full speed.
	cmd := exec.CommandContext(ctx, "strace", append([]string{
		"-f", "-y", "-xx", "-s", fmt.Sprint(maxString), "--seccomp-bpf", "-e", "trace=" + traced, "-e", "signal=none", "-o", log, program,
	}, args...)...)
	var stderr strings.Builder
	cmd.Env, cmd.Stderr, cmd.WaitDelay = env, &stderr, 5*time.Second
	if _, err := cmd.Output(); err != nil { // the trace has the output, and when it was written
		return nil, fmt.Errorf("run %s under strace: %w: %s", program, err, stderr.String())
	}
	f, err := os.Open(log)
	if err != nil {
		return nil, err
	}
	defer f.Close() // it was only read
	moments, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("read the trace: %w", err)
	}
	t := newTrace(dir, ignore)
	for at, m := range moments {
		if m.call == nil {
			continue
		}
		if err := t.add(at, m); err != nil {
			return nil, fmt.Errorf("%s(%.200s): %w", m.call.name, strings.Join(m.call.args, ", "), err)
		}
	}
	t.Moments = len(moments)
	return t, nil
}

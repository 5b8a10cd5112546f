package main

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// debian fetches Debian packages with apt, which verifies them, and keeps them in a directory. It installs nothing.
type debian struct{ cache string }

// kernelPackage names the newest kernel that Debian makes for virtual machines.
const kernelPackage = "linux-image-cloud-amd64"

var kernelDepends = regexp.MustCompile(`Depends: (linux-image-\S+-cloud-amd64)`)

// kernel returns the path of a bzImage.
func (d debian) kernel(ctx context.Context) (string, error) {
	out, err := output(ctx, "", "apt-cache", "depends", kernelPackage)
	if err != nil {
		return "", fmt.Errorf("look for a kernel: %w", err)
	}
	m := kernelDepends.FindStringSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("look for a kernel: apt-cache names none that %s depends on", kernelPackage)
	}
	return d.file(ctx, m[1], "./boot/vmlinuz-*")
}

// busybox returns the path of a static busybox.
func (d debian) busybox(ctx context.Context) (string, error) {
	return d.file(ctx, "busybox-static", "./bin/busybox")
}

// file returns the path of the one file of a package that matches pattern.
func (d debian) file(ctx context.Context, name, pattern string) (string, error) {
	if err := os.MkdirAll(d.cache, 0o755); err != nil {
		return "", err
	}
	deb, err := d.download(ctx, name)
	if err != nil {
		return "", fmt.Errorf("fetch %s: %w", name, err)
	}
	unpacked := strings.TrimSuffix(deb, ".deb") // the name of a package has its version
	if _, err := os.Stat(unpacked); err == nil {
		return unpacked, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if err := unpack(ctx, deb, pattern, unpacked); err != nil {
		return "", fmt.Errorf("unpack %s: %w", deb, err)
	}
	return unpacked, nil
}

// download returns the path of the package that apt would install. It is not fetched again if it is there and whole.
func (d debian) download(ctx context.Context, name string) (string, error) {
	out, err := output(ctx, "", "apt-cache", "show", "--no-all-versions", name)
	if err != nil {
		return "", err
	}
	version, arch := field(out, "Version"), field(out, "Architecture")
	if version == "" || arch == "" {
		return "", errors.New("apt-cache does not say its version and architecture")
	}
	// Where apt-get may not read the directory as its own user it says so and goes on as us.
	if _, err := output(ctx, d.cache, "apt-get", "-q", "download", name+"="+version); err != nil {
		return "", err
	}
	deb := filepath.Join(d.cache, name+"_"+strings.ReplaceAll(version, ":", "%3a")+"_"+arch+".deb")
	if _, err := os.Stat(deb); err != nil {
		return "", err
	}
	return deb, nil
}

// field is the value of a field of a package's description.
func field(description, name string) string {
	for line := range strings.Lines(description) {
		if value, ok := strings.CutPrefix(line, name+": "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// unpack writes the one file of deb that matches pattern to target.
func unpack(ctx context.Context, deb, pattern, target string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := command(ctx, "", "dpkg-deb", "--fsys-tarfile", deb)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { cancel(); _ = cmd.Wait() }() // it is ended when it has said what we want
	for r := tar.NewReader(bufio.NewReader(pipe)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("there is no %s in it", pattern)
		}
		if err != nil {
			return err
		}
		if ok, _ := path.Match(pattern, h.Name); !ok || h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		return atomicfile.Write(target, data, 0o755)
	}
}

// command is a program with our environment, but in the C locale.
func command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// output runs a program and returns what it prints; what it complains of is in the error.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	cmd := command(ctx, dir, name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}

//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// docker runs a program with the Docker Engine, if one answers. An image is imported once, from the same directory that
// the other contenders use.
type docker struct {
	imported map[string]bool
	count    int
}

// dockerAnswers says why Docker is not part of the comparison, or nil.
func dockerAnswers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Version}}").CombinedOutput()
	if errors.Is(err, exec.ErrNotFound) {
		return err
	}
	if err != nil {
		return fmt.Errorf("no engine answers: %s", firstLine(strings.TrimSpace(string(out))))
	}
	return nil
}

func (d *docker) command(ctx context.Context, img rootfs, args []string) (*exec.Cmd, func() error, error) {
	name := "silk-bench-" + strings.NewReplacer(":", "-", "/", "-").Replace(img.tag)
	if !d.imported[name] {
		if err := dockerImport(ctx, img.dir, name); err != nil {
			return nil, nil, err
		}
		d.imported[name] = true
	}
	d.count++
	id := fmt.Sprintf("%s-%d", name, d.count)
	flags := []string{
		"run", "--rm", "--name", id, "--network", "none", "--read-only", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--user", fmt.Sprintf("%d:%d", guestID, guestID),
		"--memory", strconv.Itoa(memoryBytes), "--pids-limit", strconv.Itoa(pidsLimit), "--cpus", strconv.Itoa(cpus), "--log-driver", "none",
		"--tmpfs", fmt.Sprintf("/tmp:rw,noexec,size=%d", tmpBytes), "--tmpfs", "/workspace", "--workdir", "/workspace",
	}
	for _, kv := range guestEnv {
		flags = append(flags, "--env", kv)
	}
	stop := func() error {
		return exec.CommandContext(context.WithoutCancel(ctx), "docker", "rm", "--force", id).Run()
	}
	c := cmd(ctx, "docker", append(append(flags, name), args...)...)
	c.Env = os.Environ() // DOCKER_HOST and the like; the program's own is above
	return c, stop, nil
}

func dockerImport(ctx context.Context, dir, name string) error {
	tar := exec.CommandContext(ctx, "tar", "-C", dir, "-c", ".")
	load := exec.CommandContext(ctx, "docker", "import", "-", name)
	var err error
	if load.Stdin, err = tar.StdoutPipe(); err != nil {
		return fmt.Errorf("pack image for docker: %w", err)
	}
	if err := tar.Start(); err != nil {
		return fmt.Errorf("pack image for docker: %w", err)
	}
	out, loadErr := load.CombinedOutput()
	if err := errors.Join(loadErr, tar.Wait()); err != nil {
		return fmt.Errorf("import image into docker: %w: %s", err, out)
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

package runtime

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// engineDies: the engine is there again after the end of the skill, before it, or after that of silk.
func (s *skills) engineDies() {
	s.t.Helper()
	w := s.waits()
	restart := s.crash()
	if o := w.goesOn(); o.Outcome != "error" || !strings.Contains(o.Message, "remove container") || !strings.Contains(o.Message, "the Docker Engine does not answer") {
		s.t.Errorf("without an engine: %+v; stderr: %s", o, &w.said)
	}
	restart()
	w.nothing()

	w = s.waits()
	s.crash()()
	if o := w.goesOn(); o.Outcome == "ok" || o.Message == "" { // an engine that starts ends what it finds
		s.t.Errorf("with another engine: %+v; stderr: %s", o, &w.said)
	}
	w.nothing()

	w = s.waits()
	restart = s.crash()
	if err := w.cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = w.cmd.Wait()
	s.until("the container has ended", func() bool { return gone(fmt.Sprint(w.pid)) })
	restart()
	w.nothing()
}

// crash kills the engine, and with it its containerd. restart starts both again, in the same way.
func (d *daemon) crash() (restart func()) {
	d.t.Helper()
	dir := filepath.Dir(strings.TrimPrefix(d.host, "unix://"))
	pids := map[string]string{}
	for who, file := range map[string]string{"the engine": "pid", "its containerd": "exec/containerd/containerd.pid"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			d.t.Fatal(err)
		}
		pids[who] = strings.TrimSpace(string(text))
	}
	command, err := os.ReadFile("/proc/" + pids["the engine"] + "/cmdline")
	if err != nil {
		d.t.Fatal(err)
	}
	args := strings.Split(strings.TrimRight(string(command), "\x00"), "\x00")
	pid, err := strconv.Atoi(pids["the engine"])
	if err != nil {
		d.t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		d.t.Fatal(err)
	}
	for who, pid := range pids { // a pid that is there, be it a zombie's, keeps another engine from starting
		d.until(who+" is gone", func() bool { _, err := os.Stat("/proc/" + pid); return err != nil })
	}
	return func() {
		d.t.Helper()
		d.restart(args, filepath.Join(dir, "log"))
	}
}

// restart starts an engine, which ends with the test.
func (d *daemon) restart(args []string, log string) {
	d.t.Helper()
	out, err := os.OpenFile(log, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.CommandContext(context.Background(), args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait()
	}()
	d.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have been killed
		<-ended
	})
	d.until("the engine answers", func() bool { _, err := d.docker("version"); return err == nil })
}

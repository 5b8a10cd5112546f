package escape

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/selftest"
)

// silk is a silk with a state directory of its own.
type silk struct {
	path, home, config string
	user               *syscall.Credential // who runs it; nil: whoever runs the tests
	driver             string              // "": the one that it uses when it is not asked for another
}

// newSilk makes a state directory for the silk at path, which reads images from those stores.
func newSilk(t *testing.T, path, images string) silk {
	t.Helper()
	dir := t.TempDir()
	s := silk{path: path, home: filepath.Join(dir, "home"), config: filepath.Join(dir, "config.yaml")}
	if err := os.WriteFile(s.config, fmt.Appendf(nil, "system_store: %q\ngrants: {stores: [%q]}\n", images, os.TempDir()), 0o644); err != nil {
		t.Fatal(err)
	}
	return s
}

// become makes an ordinary user the one who runs s.
func (s *silk) become(t *testing.T, uid uint32) {
	t.Helper()
	s.user = &syscall.Credential{Uid: uid, Gid: uid}
	dir := filepath.Dir(s.home) // testing's directories are closed to others
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o711), os.Chown(dir, int(uid), int(uid))); err != nil {
		t.Fatal(err)
	}
}

func (s silk) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.path, args...)
	cmd.Env = append(os.Environ(), "SILK_HOME="+s.home, "SILK_CONFIG="+s.config, "SILK_SENTRY=", "TMPDIR="+filepath.Dir(s.home), "DOCKER_HOST="+testenv.DockerHost())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: s.user}
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run is what a suite runs rows with: the command line that stands for req.
func (s silk) run(ctx context.Context, req policy.Request, artifacts string) (got selftest.Result, err error) {
	args := []string{"run", "--json", "-p", req.Profile}
	for _, file := range req.Files {
		args = append(args, "--file", file)
	}
	for _, entry := range req.Env {
		args = append(args, "--env", entry)
	}
	for _, m := range req.Mounts {
		args = append(args, "--mount", m.Source+":"+m.Target)
	}
	if req.NoSpawn {
		args = append(args, "--no-spawn")
	}
	l, net := req.Limits, cmp.Or(strings.Join(req.Hosts, ","), req.Network)
	for _, flag := range []struct {
		name, value string
		said        bool
	}{
		{"--net", net, net != ""},
		{"--driver", s.driver, s.driver != ""},
		{"--artifacts", artifacts, artifacts != ""},
		{"--timeout", l.Timeout.String(), true},
		{"--memory", profile.FormatBytes(l.MemoryBytes), l.MemoryBytes != 0},
		{"--disk", profile.FormatBytes(l.WorkspaceBytes), l.WorkspaceBytes != 0},
		{"--cpus", strconv.FormatFloat(l.CPUs, 'f', -1, 64), l.CPUs != 0},
	} {
		if flag.said {
			args = append(args, flag.name, flag.value)
		}
	}
	var stdout, stderr bytes.Buffer
	cmd := s.command(ctx, append(append(args, "--"), req.Args...)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) {
		return got, runErr
	}
	var outcome struct {
		selftest.Result
		Stdout struct {
			Text *string `json:"text"`
			B64  *string `json:"b64"`
		} `json:"stdout"`
	}
	if err := json.Unmarshal(stdout.Bytes(), &outcome); err != nil {
		return got, fmt.Errorf("read the outcome: %w; stderr: %s", err, stderr.String())
	}
	got = outcome.Result
	if outcome.Stdout.Text != nil {
		got.Output = []byte(*outcome.Stdout.Text)
	} else if outcome.Stdout.B64 != nil {
		got.Output, err = base64.StdEncoding.DecodeString(*outcome.Stdout.B64)
	}
	return got, err
}

// variable is in the environment of every silk here, and must be in no sandbox's.
const variable = "SILK_ESCAPE_DECOY"

// own adds to the configuration what the owner of the host says of decoys.
func (s silk) own(t *testing.T, decoys *selftest.Decoys) {
	t.Helper()
	addrs, targets := decoys.Owner()
	egress, err := json.Marshal(map[string]any{"hosts": addrs, "targets": targets}) // which is YAML
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(s.config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.config, fmt.Appendf(content, "egress: %s\n", egress), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newSuite makes a suite that runs rows with s.
func newSuite(t *testing.T, s silk) *selftest.Suite {
	t.Helper()
	t.Setenv(variable, "of the host")
	dir, err := os.MkdirTemp("", "escape") // short: it holds a socket, unix(7)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	decoys, err := selftest.OpenDecoys(dir, variable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := decoys.Close(); err != nil {
			t.Error(err)
		}
	})
	s.own(t, decoys)
	return &selftest.Suite{Run: s.run, Attack: attackProgram(t), Decoys: decoys, Dir: dir, Jobs: runtime.NumCPU()}
}

// planted are files that no image of silk's has, and that outside a policy anybody may read.
var planted = map[string]string{
	"etc/passwd": "root:x:0:0:planted:/root:/bin/sh\n", "etc/shadow": "root:planted:1::::::\n", "etc/gshadow": "root:planted::\n", "etc/sudoers": "planted ALL\n",
	"root/.ssh/id_rsa": "a planted key\n", "boot/vmlinuz": "a planted kernel\n", plantedDir + "/secret": "a planted secret\n",
}

// plantedDir lies outside every tree of the planted image.
const plantedDir = "planted"

// plantedImages is an image store in which lab:text has those files, and programs in plantedDir.
func plantedImages(t *testing.T) string {
	t.Helper()
	testenv.Require(t, testenv.Image("lab:text"))
	home := t.TempDir()
	store, err := image.Open(image.Config{Home: home, More: []string{filepath.Join(testenv.Home(), "images")}})
	if err != nil {
		t.Fatal(err)
	}
	original, err := store.Resolve("lab:text")
	if err != nil {
		t.Fatal(err)
	}
	meta, err := store.Meta(original)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := store.Tree(t.Context(), original, image.TreeConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	for _, dir := range []string{"root", "root/.ssh", plantedDir} {
		if err := tree.AddDir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range planted {
		if err := tree.AddFile(name, 0o644, time.Time{}, strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.ReadFile(attackProgram(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.AddFile(plantedDir+"/program", 0o755, time.Time{}, bytes.NewReader(program)); err != nil {
		t.Fatal(err)
	}
	meta.Source = "planted"
	if _, err := store.Put(t.Context(), tree.WriteEROFS, meta, "lab:text"); err != nil {
		t.Fatal(err)
	}
	return home
}

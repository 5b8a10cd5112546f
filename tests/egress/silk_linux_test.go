package egress

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/tests/silktest"
)

// Images that programs of rows run in.
const (
	python = "lab:python"
	node   = "lab:node"
	curl   = "egress:curl"
)

// who runs silk, and what its sandboxes are.
type who struct {
	name   string              // the first letter is the last but one of the words of its attempts
	user   *syscall.Credential // nil: root
	driver string              // "": the one that silk uses when it is not asked for another
}

const nobody = 65534 // an ordinary user on every Linux

var (
	root      = who{name: "root"}
	user      = who{name: "user", user: &syscall.Credential{Uid: nobody, Gid: nobody}}
	container = who{name: "docker", driver: "docker"}
	machine   = who{name: "machine", driver: "qemu"}

	whos = []who{root, user, container}
)

// words are those of text that are root's attempts, as somebody else's.
func (w who) words(text string) string {
	return word.ReplaceAllStringFunc(text, func(one string) string { return strings.Replace(one, "rw", w.name[:1]+"w", 1) })
}

// patience is how long a silk may take. An emulated machine on a busy host takes minutes for what takes others a second.
func (w who) patience() time.Duration {
	if w.driver == "qemu" {
		return 20 * time.Minute
	}
	return 3 * time.Minute
}

// silk is the program under test, with a state directory of its own.
type silk struct {
	silktest.Silk
	as who
}

// newSilk prepares silk: it writes to a temporary directory and reads images from the test store. more are
// further lines of the configuration, which follow its profiles.
func newSilk(t testing.TB, as who, more string, images ...string) silk {
	t.Helper()
	enterWorld(t)
	for _, tag := range images {
		testenv.Require(t, testenv.Image(tag))
	}
	if as.user != nil {
		testenv.Require(t, testenv.Userns)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o711); err != nil { // testing's directories are closed to others
		t.Fatal(err)
	}
	s := silk{silktest.Silk{Home: filepath.Join(dir, "home"), Config: filepath.Join(dir, "config.yaml"), Dir: dir, Env: []string{"TMPDIR=" + dir}, User: as.user}, as}
	if as.driver == "docker" {
		s.Env = append(s.Env, "DOCKER_HOST="+enterEngine(t).host)
	}
	if err := s.configure(more); err != nil {
		t.Fatal(err)
	}
	return s
}

// configure writes the configuration anew.
func (s *silk) configure(more string) error {
	text := fmt.Sprintf("system_store: %q\nprofiles:\n  curl: {from: lab:text, image: %q, summary: curl, limits: {processes: 256}}\n  strict: {from: lab:python, on_refused: kill, summary: ends at the first refusal}\n%s",
		filepath.Join(testenv.Home(), "images"), curl, more)
	if err := os.WriteFile(s.Config, []byte(text), 0o644); err != nil {
		return err
	}
	return s.Own(s.Dir)
}

// result is what came of one silk run.
type result struct {
	outcome run.Outcome
	stderr  string
	status  int
}

// run runs silk run --json.
func (s silk) run(ctx context.Context, args ...string) (r result, err error) {
	end, err := s.Run(ctx, s.as.patience(), &r.outcome, s.command(append([]string{"--json"}, args...)...)...)
	r.status, r.stderr = end.Status, end.Stderr
	return r, err
}

// command is silk run with args.
func (s silk) command(args ...string) []string {
	if s.as.driver != "" {
		args = append([]string{"--driver", s.as.driver}, args...)
	}
	return append([]string{"run"}, args...)
}

// text is what is kept of a channel.
func text(c run.Channel) string {
	switch {
	case c.Text != nil:
		return *c.Text
	case c.B64 != nil:
		return *c.B64
	}
	return ""
}

// refusal finds what an outcome says of something that was refused.
func (r result) refusal(kind, host string, port int, rule string) (run.Destination, bool) {
	for _, d := range r.outcome.Egress {
		if !d.Allowed && d.Kind == kind && strings.EqualFold(d.Host, host) && d.Port == port && d.Rule == rule {
			return d, true
		}
	}
	return run.Destination{}, false
}

package docker

import (
	"context"
	"io"
	"os"
	"sync"
	"testing"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/driver/drivertest"
	"github.com/silk-sandbox/silk/image/imagetest"
	"github.com/silk-sandbox/silk/internal/testenv"
	"github.com/silk-sandbox/silk/watch/bpf"
)

// guests is what cmd/silk makes of a watcher too.
type guests struct{ *bpf.Scope }

func (g guests) Dropped() (int64, error) {
	c, err := g.Counts()
	return int64(c.Lost), err
}

var watcher = sync.OnceValues(func() (*bpf.Watcher, error) {
	return bpf.Open(context.Background(), bpf.Config{Guarded: true})
})

// envShared is the state directory of the process that started this one.
const envShared = "SILK_DOCKER_HOME"

var home = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(envShared); dir != "" {
		return dir, nil
	}
	return os.MkdirTemp("", "silk-docker-")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := home(); err == nil && os.Getenv(envShared) == "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func newDriver(t *testing.T) *Driver {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.BPF, testenv.Landlock, testenv.Docker, testenv.Image("lab:text"))
	w, err := watcher()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := home()
	if err != nil {
		t.Fatal(err)
	}
	d, err := New(Config{
		Home: dir, Host: testenv.DockerHost(), Run: dir + "/run",
		Watch: func(ctx context.Context, pid int, release io.Writer) (Scope, error) {
			s, err := w.Guest(ctx, pid, release)
			if err != nil {
				return nil, err
			}
			return guests{s}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := d.launcher(); err != nil { // it is kept
		t.Fatal(err)
	}
	return d
}

func openLabText(t *testing.T) *os.File {
	t.Helper()
	return imagetest.Root(t, "lab:text")
}

func TestConformance(t *testing.T) {
	newDriver(t)
	drivertest.Run(t, func(t *testing.T) driver.Driver { return newDriver(t) }, openLabText, drivertest.Shell)
}

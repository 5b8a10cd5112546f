// Package container is the state that an OCI runtime keeps of its containers: one directory for each below the engine's root
// (--root), in which every call of the runtime finds what an earlier one left.
//
//	ROOT/ID/state.json  what is known of it, see [State]
//	ROOT/ID/lock        held by the container's monitor for as long as it lives
//	ROOT/ID/control     a socket on which the monitor takes [Order]s
//
// The monitor is the process whose number engines know and wait for. Whether a container lives is asked of the lock, never of a
// process number, which may be somebody else's by now. The package starts and ends nothing.
package container

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/lockfile"
)

// Errors in words that engines look for in what a runtime says: containerd's shim tells by them what is no failure.
var (
	ErrExists     = errors.New("container with given ID already exists")
	ErrNotExist   = errors.New("container does not exist")
	ErrNotRunning = errors.New("container not running")
)

// Container is the directory of one.
type Container struct {
	ID   string
	path string
}

// State is what is known of a container.
type State struct {
	OCIVersion  string               `json:"ociVersion"`
	ID          string               `json:"id"`
	Status      specs.ContainerState `json:"status"`
	PID         int                  `json:"pid"` // of the monitor; 0 before there is one
	Bundle      string               `json:"bundle"`
	Created     time.Time            `json:"created"`
	Run         string               `json:"run,omitempty"`    // id of its run
	CGroup      string               `json:"cgroup,omitempty"` // path of its control group; empty: none
	Listed      string               `json:"listed,omitempty"` // file by which a sweep finds the container
	Annotations map[string]string    `json:"annotations,omitempty"`
}

// idForm is what engines use as ids. It is a file name.
var idForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.+-]{0,254}$`)

// At is the container of that id, which need not exist.
func At(root, id string) (*Container, error) {
	if !idForm.MatchString(id) {
		return nil, fmt.Errorf("container id %q is not letters, digits, _ . + and -", id)
	}
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("find directory of containers: %w", err)
	}
	return &Container{ID: id, path: filepath.Join(root, id)}, nil
}

// Path is the directory.
func (c *Container) Path() string { return c.path }

func (c *Container) file(name string) string { return filepath.Join(c.path, name) }

// Create makes the directory. [ErrExists] if it is there.
func (c *Container) Create() error {
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return fmt.Errorf("make directory of containers: %w", err)
	}
	err := os.Mkdir(c.path, 0o700)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %s", ErrExists, c.ID)
	}
	if err != nil {
		return fmt.Errorf("make directory of container: %w", err)
	}
	return nil
}

// Remove removes the directory and what is in it.
func (c *Container) Remove() error {
	if err := os.RemoveAll(c.path); err != nil {
		return fmt.Errorf("remove container %s: %w", c.ID, err)
	}
	return nil
}

// Hold says that the calling process is the container's monitor, until it ends or leaves the lock.
func (c *Container) Hold() (*lockfile.Lock, error) {
	lock, err := lockfile.Create(c.file("lock"))
	if err != nil {
		return nil, fmt.Errorf("hold container %s: %w", c.ID, err)
	}
	return lock, nil
}

// Alive says whether the container has a monitor. When that cannot be told, it has.
func (c *Container) Alive() bool {
	held, err := lockfile.Held(c.file("lock"))
	return held || err != nil
}

// Save writes what is known.
func (c *Container) Save(s State) error {
	s.ID = c.ID
	data, err := json.Marshal(s)
	if err == nil {
		err = atomicfile.Write(c.file("state.json"), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("write state of container %s: %w", c.ID, err)
	}
	return nil
}

// State is what is known now. A container whose monitor has ended is stopped, whatever it wrote last; one that is being made and
// has none yet is said to be that. [ErrNotExist] if there is none.
func (c *Container) State() (State, error) {
	data, err := os.ReadFile(c.file("state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, fmt.Errorf("%w: %s", ErrNotExist, c.ID)
	}
	var s State
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return State{}, fmt.Errorf("read state of container %s: %w", c.ID, err)
	}
	if s.PID != 0 && !c.Alive() {
		s.Status = specs.StateStopped
	}
	return s, nil
}

// List returns the ids of all containers below root, sorted.
func List(root string) (ids []string, err error) {
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && idForm.MatchString(e.Name()) {
			ids = append(ids, e.Name())
		}
	}
	return ids, nil
}

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/oci/container"
)

// containersDir has a file for each container, in silk's state directory.
const containersDir = "containers"

// listed is one of those files.
type listed struct {
	Root   string `json:"root"`
	ID     string `json:"id"`
	CGroup string `json:"cgroup,omitempty"`
}

// list notes in silk's state directory that there is this container, for `silk gc`.
func (m *monitor) list(home string) error {
	dir := filepath.Join(home, containersDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("list container: %w", err)
	}
	sum := sha256.Sum256([]byte(m.container.Path()))
	file := filepath.Join(dir, hex.EncodeToString(sum[:])[:32]+".json")
	data, err := json.Marshal(listed{Root: filepath.Dir(m.container.Path()), ID: m.container.ID, CGroup: m.state.CGroup})
	if err == nil {
		err = atomicfile.Write(file, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("list container: %w", err)
	}
	m.mu.Lock()
	m.state.Listed = file
	m.mu.Unlock()
	return m.set(specs.StateCreating)
}

// deadContainers removes what is left of containers whose monitor has ended and whose engine has not removed them, or with dry only
// names them.
func deadContainers(home string, dry bool) (names []string, err error) {
	files, err := filepath.Glob(filepath.Join(home, containersDir, "*.json"))
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, file := range files {
		data, err := os.ReadFile(file)
		var l listed
		if err == nil {
			err = json.Unmarshal(data, &l)
		}
		var c *container.Container
		if err == nil {
			c, err = container.At(l.Root, l.ID)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s: %w", file, err))
			continue
		}
		if c.Alive() {
			continue
		}
		if !dry {
			if err := dismantle(c, container.State{CGroup: l.CGroup, Listed: file}); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		names = append(names, c.Path())
	}
	return names, errors.Join(errs...)
}

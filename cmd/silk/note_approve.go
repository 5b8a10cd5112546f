//go:build server || !linux || !amd64

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/lockfile"
)

// approvedFile has the hashes of the blocks that silk note watch may run, in the state directory.
const approvedFile = "notes-approved.json"

// approvedBlocks are the blocks that the user let silk note watch run.
type approvedBlocks struct {
	Blocks map[string]approvedBlock `json:"blocks"` // by their hash
}

// approvedBlock says for people what was approved when.
type approvedBlock struct {
	Note string `json:"note"`
	AtMs int64  `json:"at_ms"`
}

func (b approvedBlocks) has(hash string) bool { _, ok := b.Blocks[hash]; return ok }

func (a *app) stateDir() (string, error) {
	c, err := a.loadConfig()
	if err != nil {
		return "", err
	}
	return a.home(c)
}

func (a *app) approvedBlocks() (approvedBlocks, error) {
	home, err := a.stateDir()
	if err != nil {
		return approvedBlocks{}, err
	}
	return readApproved(filepath.Join(home, approvedFile))
}

func readApproved(file string) (approvedBlocks, error) {
	b := approvedBlocks{Blocks: map[string]approvedBlock{}}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return approvedBlocks{}, &hostError{fmt.Errorf("read approved blocks: %w", err)}
	}
	if b.Blocks == nil {
		b.Blocks = map[string]approvedBlock{}
	}
	return b, nil
}

func (a *app) noteApprove(f *noteFlags, name string) (err error) {
	file, err := openNote(name)
	if err != nil {
		return err
	}
	n, err := file.read()
	if err != nil {
		return err
	}
	list, err := f.chosen(n, name)
	if err == nil {
		err = runnableBlocks(n, list, name)
	}
	if err != nil {
		return err
	}
	home, err := a.stateDir()
	if err != nil {
		return err
	}
	if err := makeHome(home); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(a.ctx, notePatience, errors.New("another program has locked it"))
	defer cancel()
	lock, err := lockfile.Directory(ctx, home)
	if err != nil {
		return &hostError{err}
	}
	defer func() { err = errors.Join(err, lock.Leave()) }()
	path := filepath.Join(home, approvedFile)
	approved, err := readApproved(path)
	if err != nil {
		return err
	}
	for _, i := range list {
		b := n.Blocks[i]
		if f.revoke {
			delete(approved.Blocks, b.CodeHash)
			a.errorf("%s:%d: not run by silk note watch any more", name, b.Line+1)
			continue
		}
		approved.Blocks[b.CodeHash] = approvedBlock{Note: file.inVault(), AtMs: time.Now().UnixMilli()}
		a.errorf("%s:%d: silk note watch may run it as it is now, sha256:%s", name, b.Line+1, b.CodeHash)
	}
	return atomicfile.Write(path, jsonLine(approved), 0o600)
}

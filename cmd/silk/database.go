package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/store"
)

// serverName is the executable of `silk serve`: this package with the tag "server" (docs/adr/0007-server-executable.md).
const serverName = "silk-server"

// sharedDir is the directory of what a server with a shared database keeps on its host, inside the state directory. What the
// command line keeps there belongs to another database, the file: neither must clear away what the other one knows.
const sharedDir = "shared"

// database is the address of the database that servers share: $SILK_DATABASE, or of the configuration, or of the file that it
// names. Empty: there is none.
func (a *app) database(c serveConfig) (secret.Secret, error) {
	if text := a.env("SILK_DATABASE"); text != "" {
		return secret.New(text), nil
	}
	if c.databaseFile == "" {
		return c.database, nil
	}
	info, err := os.Stat(c.databaseFile)
	switch {
	case err != nil:
		return secret.Secret{}, fmt.Errorf("serve: database_file: %w", err)
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0:
		return secret.Secret{}, fmt.Errorf("serve: database_file: %s is not a file that its owner alone can read (chmod 600)", c.databaseFile)
	}
	text, err := os.ReadFile(c.databaseFile)
	if err != nil {
		return secret.Secret{}, fmt.Errorf("serve: database_file: %w", err)
	}
	address := secret.New(strings.TrimSpace(string(text)))
	if address.Empty() {
		return address, fmt.Errorf("serve: database_file: %s is empty", c.databaseFile)
	}
	return address, nil
}

// tokenStore opens the database of the service, where its tokens are. With make it makes what is not there; without, it is
// errNoRuns if there is nothing.
func (a *app) tokenStore(make bool) (*store.DB, error) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	address, err := a.database(c.serve)
	if err != nil {
		return nil, err
	}
	if !address.Empty() {
		return a.openDatabase(address)
	}
	home, err := a.home(c)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(home, store.FileName)
	if make {
		if err := makeHome(home); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, errNoRuns
	}
	return store.Open(a.ctx, path)
}

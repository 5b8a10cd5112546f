//go:build server

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/queue"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/store/postgres"
)

// localWorker is the name of a server that shares its database with no other.
const localWorker = "local"

func (a *app) openDatabase(address secret.Secret) (*store.DB, error) {
	db, err := postgres.Open(a.ctx, address)
	if err != nil {
		return nil, &hostError{err}
	}
	return db, nil
}

// openShared opens the database that servers share; nil if the configuration has none.
func (a *app) openShared(c config) (*store.DB, error) {
	address, err := a.database(c.serve)
	if err != nil || address.Empty() {
		return nil, err
	}
	return a.openDatabase(address)
}

// openState opens the database. If servers share it, this one joins them, and h is changed to what it keeps on this host
// beside such a database.
func (s *service) openState(ctx context.Context, h *host) (db *store.DB, err error) {
	if db, err = s.openShared(h.config); err != nil {
		return nil, err
	}
	if db == nil {
		if db, err = store.Open(ctx, filepath.Join(h.home, store.FileName)); err != nil {
			return nil, &hostError{err}
		}
		return db, nil
	}
	defer func() {
		if err != nil {
			err = errors.Join(&hostError{err}, db.Close())
		}
	}()
	if h.config.audit.Retention > 0 {
		return nil, errors.New("audit: retention cannot be kept with serve: database, since events stay in the database; remove one of the two")
	}
	h.home = filepath.Join(h.home, sharedDir)
	if err := os.MkdirAll(h.home, 0o700); err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	id, err := serverID(h.home)
	if err != nil {
		return nil, err
	}
	name, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	if s.members, err = queue.Join(ctx, queue.MembersConfig{DB: db, ID: id, Name: name, Logger: s.log}); err != nil {
		return nil, err
	}
	h.shared = &shared{db: db, id: id, alive: s.members.Alive}
	s.log.Info("sharing a database", "server", id)
	return db, nil
}

// serverID is the name of the server of a state directory among those that share a database: made once.
func serverID(home string) (string, error) {
	file := filepath.Join(home, "server.id")
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		id := ulid.MustNew(ulid.Now(), rand.Reader).String()
		return id, atomicfile.Write(file, []byte(id+"\n"), 0o600)
	}
	if err != nil {
		return "", err
	}
	id, err := ulid.ParseStrict(strings.TrimSpace(string(text)))
	if err != nil {
		return "", fmt.Errorf("%s does not have the id of a server; remove it for a new one", file)
	}
	return id.String(), nil
}

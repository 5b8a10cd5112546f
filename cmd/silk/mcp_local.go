//go:build server

package main

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/internal/cleanup"
	"github.com/silk-sandbox/silk/mcp/local"
	"github.com/silk-sandbox/silk/store"
)

// localEngine is that of this host, beside whatever else uses its state directory.
func (a *app) localEngine(f mcpFlags) (_ engines, err error) {
	var undo cleanup.Stack
	shut := func() error { return undo.Run(a.ctx) }
	defer func() {
		if err != nil {
			err = errors.Join(err, shut())
		}
	}()
	h, err := a.openHost(true) // the host's kernel watches too, where it can: it is paid for once
	if err != nil {
		return engines{}, err
	}
	undo.Push(func(context.Context) error { return h.close() })
	if err := h.knownDriver(""); err != nil {
		return engines{}, err
	}
	engine, err := a.engine(h)
	if err != nil {
		return engines{}, err
	}
	undo.Push(func(context.Context) error { return engine.Close() })
	deliveries, err := a.startDeliveries(h)
	if err != nil {
		return engines{}, err
	}
	undo.PushFunc(func() { deliveries.end("") })
	db, err := store.Open(a.ctx, filepath.Join(h.home, store.FileName))
	if err != nil {
		return engines{}, &hostError{err}
	}
	undo.Push(func(context.Context) error { return db.Close() })
	here, err := local.Open(local.Config{Home: h.home, Engine: engine, DB: db, Profiles: func() ([]api.Profile, error) { return profilesOf(h.config.profiles) }})
	if err != nil {
		return engines{}, &hostError{err}
	}
	undo.Push(func(context.Context) error { return here.Close() })
	e := engines{open: here.For, running: runtime.NumCPU(), config: h.config, close: shut}
	if f.http == "" {
		return e, nil
	}
	tokens, err := a.tokenStore(true)
	if err != nil {
		return engines{}, err
	}
	undo.Push(func(context.Context) error { return tokens.Close() })
	e.verify = auth.NewVerifier(tokens, auth.VerifierConfig{}).Verify
	return e, nil
}

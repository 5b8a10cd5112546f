package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/silk-sandbox/silk/alert"
	"github.com/silk-sandbox/silk/audit"
	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/store"
)

// alertConfig is where alerts go.
type alertConfig struct {
	quiet    bool // no line on stderr
	files    []string
	webhooks []alert.Webhook
}

// readAlerts reads the list of sinks. Each entry is one.
func readAlerts(d *strictyaml.Decoder, n strictyaml.Node) (c alertConfig) {
	d.Items(n, "alerts", func(item strictyaml.Node) {
		keys := 0
		one := func(read func(strictyaml.Node)) func(strictyaml.Node) {
			return func(v strictyaml.Node) { keys++; read(v) }
		}
		d.Fields(item, "an entry of alerts", map[string]func(strictyaml.Node){
			"stderr":  one(func(v strictyaml.Node) { c.quiet = !readBool(d, v, "alerts: stderr") }),
			"file":    one(func(v strictyaml.Node) { c.files = append(c.files, absolute(d, v, "alerts: file")) }),
			"webhook": one(func(v strictyaml.Node) { c.webhooks = append(c.webhooks, readWebhook(d, v)) }),
		})
		if keys != 1 {
			d.Fail(item, "an entry of alerts is one of stderr, file and webhook, not %d of them", keys)
		}
	})
	return c
}

func readWebhook(d *strictyaml.Decoder, n strictyaml.Node) (w alert.Webhook) {
	before := d.Faults()
	d.Fields(n, "a webhook", map[string]func(strictyaml.Node){
		"url":         func(v strictyaml.Node) { w.URL = d.Text(v, "webhook: url") },
		"secret_file": func(v strictyaml.Node) { w.SecretFile = absolute(d, v, "webhook: secret_file") },
		"timeout":     func(v strictyaml.Node) { w.Timeout = readDuration(d, v, "webhook: timeout") },
	})
	if d.Faults() == before { // else what is wrong has been said
		if err := w.Check(); err != nil {
			d.Fail(n, "%v", err)
		}
	}
	return w
}

// readAudit reads when audit events move into files, and when files go.
func readAudit(d *strictyaml.Decoder, n strictyaml.Node) (p audit.Policy) {
	d.Fields(n, "audit", map[string]func(strictyaml.Node){
		"max_size": func(v strictyaml.Node) {
			size, err := profile.ParseBytes(d.Text(v, "audit: max_size"))
			if err != nil {
				d.Fail(v, "audit: max_size: %v", err)
			}
			p.MaxBytes = size
		},
		"max_age":   func(v strictyaml.Node) { p.MaxAge = readDuration(d, v, "audit: max_age") },
		"retention": func(v strictyaml.Node) { p.Retention = readDuration(d, v, "audit: retention") },
		"keep": func(v strictyaml.Node) {
			keep, err := strconv.ParseInt(d.Text(v, "audit: keep"), 10, 64)
			if err != nil || keep < 1 {
				d.Fail(v, "audit: keep is not a number of events above zero")
			}
			p.Keep = keep
		},
	})
	return p
}

func readBool(d *strictyaml.Decoder, n strictyaml.Node, what string) bool {
	text := d.Text(n, what)
	if text != "true" && text != "false" {
		d.Fail(n, "%s is %q, not true or false", what, text)
	}
	return text == "true"
}

// readDuration reads a duration above zero, also in days: "30d".
func readDuration(d *strictyaml.Decoder, n strictyaml.Node, what string) time.Duration {
	text := d.Text(n, what)
	duration, ok := longDuration(text)
	if !ok {
		d.Fail(n, "%s is %q, which is not a duration above zero such as 5s, 12h or 30d", what, text)
		return 0
	}
	return duration
}

// alerts makes the sinks of the configuration, the line on stderr included.
func (a *app) alerts(h *host) (*alert.Sinks, error) {
	c := h.config.alerts
	cfg := alert.Config{Files: c.files, Webhooks: c.webhooks, Audit: h.audit}
	if !c.quiet {
		cfg.Stderr, cfg.Coloured = rawStderr{a}, a.colour(a.err, "1", "x") != "x"
	}
	return alert.New(cfg)
}

// rawStderr is stderr also while the terminal is in raw mode, where a line feed alone does not begin a line.
type rawStderr struct{ a *app }

func (r rawStderr) Write(b []byte) (int, error) {
	r.a.endLine()
	if r.a.restore.Load() == nil {
		return r.a.err.Write(b)
	}
	if _, err := r.a.err.Write(bytes.ReplaceAll(b, []byte("\n"), []byte("\r\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// audit appends an event that no run writes.
func (h *host) audit(ctx context.Context, e *audit.Event) (err error) {
	var db *store.DB
	if h.shared != nil {
		db = h.shared.db
	} else {
		if db, err = store.Open(ctx, filepath.Join(h.home, store.FileName)); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Leave()) }()
	}
	if err := db.Update(ctx, func(tx *sql.Tx) error { return audit.Append(ctx, tx, e) }); err != nil {
		return fmt.Errorf("audit %s: %w", e.Name, err)
	}
	return nil
}

// previewAudit says what rotateAudit would do: whether events would move into files, and which files would go.
func (h *host) previewAudit(ctx context.Context) (move bool, remove []string, err error) {
	path := filepath.Join(h.home, store.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil, nil // nothing has been run yet
	}
	db, err := store.Open(ctx, path)
	if err != nil {
		return false, nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return audit.Preview(ctx, db, h.config.audit)
}

// rotateAudit moves old events into files, and says what it moved.
func (h *host) rotateAudit(ctx context.Context) (did audit.Rotated, err error) {
	path := filepath.Join(h.home, store.FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return did, nil // nothing has been run yet
	}
	db, err := store.Open(ctx, path)
	if err != nil {
		return did, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	for {
		one, err := audit.Rotate(ctx, db, h.config.audit)
		did.Segments, did.Removed = append(did.Segments, one.Segments...), append(did.Removed, one.Removed...)
		if err != nil || !one.More {
			return did, err
		}
	}
}

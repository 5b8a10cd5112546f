package recipe

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	workers         = 4        // downloads at once: enough to fill a line, few enough for a mirror
	maxTarballBytes = 64 << 20 // npm locks have no size; what we take is below 10 MB
	attempts        = 5        // in a row without one byte
)

// item is a file to be had: from the cache, or from the network into the cache.
type item struct {
	label string // "package jq 1.7.1-6+deb13u1", for messages
	path  string // in the cache
	size  int64  // exact, or 0 if it is not known
	hash  func() hash.Hash
	sum   []byte
	url   string
}

func (p Package) item(cache, mirror string) item {
	sum, _ := hex.DecodeString(p.SHA256) // validated
	return item{
		label: "package " + p.Name + " " + p.Version,
		path:  filepath.Join(cache, "debs", p.SHA256+".deb"),
		size:  p.Size, hash: sha256.New, sum: sum,
		url: mirror + "/" + p.Path,
	}
}

func (t Tarball) item(cache, registry string) item {
	sum, _ := t.sum() // validated
	return item{
		label: "npm package " + t.Name + " " + t.Version,
		path:  filepath.Join(cache, "npm", hex.EncodeToString(sum)+".tgz"),
		hash:  sha512.New, sum: sum,
		url: tarballURL(registry, t),
	}
}

// bound is the most bytes that the file may have.
func (it item) bound() int64 {
	if it.size > 0 {
		return it.size
	}
	return maxTarballBytes
}

// goneError says that the archive or registry does not have a file any more.
type goneError struct{ label, status string }

func (e *goneError) Error() string { return e.label + " has left the archive (" + e.status + ")" }

// mismatchError says that a file is not what the lock says.
type mismatchError struct{ label, got, want string }

func (e *mismatchError) Error() string {
	return fmt.Sprintf("%s: received %s, the lock says %s", e.label, e.got, e.want)
}

// fetcher brings items into the cache.
type fetcher struct {
	client  *http.Client
	backoff time.Duration // before the first retry; doubles
	stall   time.Duration // without a byte
	report  func(bytes int64)
}

func newFetcher(client *http.Client, report func(bytes int64)) *fetcher {
	return &fetcher{client: client, backoff: 500 * time.Millisecond, stall: stallTimeout, report: report}
}

// all fetches items, a few at once. Items that the archive does not have any more are returned together, so that
// they can be resolved again; any other error ends it.
func (f *fetcher) all(ctx context.Context, items []item) (gone []*goneError, err error) {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, it := range items {
		group.Go(func() error {
			err := f.one(ctx, it)
			var g *goneError
			if errors.As(err, &g) {
				mu.Lock()
				defer mu.Unlock()
				gone = append(gone, g)
				return nil
			}
			return err
		})
	}
	return gone, group.Wait()
}

// one fetches it and puts it into the cache, verified.
func (f *fetcher) one(ctx context.Context, it item) error {
	if err := os.MkdirAll(filepath.Dir(it.path), 0o755); err != nil {
		return fmt.Errorf("make package cache: %w", err)
	}
	part, err := claimPart(it.path)
	if err != nil {
		return fmt.Errorf("%s: %w", it.label, err)
	}
	defer part.release()

	wait, restarted := f.backoff, false
	for tries := 1; ; tries++ {
		before := part.size
		err := f.transfer(ctx, it, part)
		if err == nil {
			if err = part.verify(it); err == nil {
				return part.commit(it.path)
			}
			// Bytes kept from an earlier attempt may be the fault: once more from the start.
			if errors.As(err, new(*mismatchError)) && !restarted {
				restarted = true
				f.report(-part.size)
				if err = part.truncate(); err == nil {
					continue
				}
			}
			return errors.Join(err, part.truncate())
		}
		if part.size > before {
			tries, wait = 1, f.backoff
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, new(*permanentError)) || tries >= attempts:
			return fmt.Errorf("download %s: %w", it.label, err)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		wait *= 2
	}
}

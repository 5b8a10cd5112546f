package recipe

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
)

// What the lab images are made of.
const (
	suite = "trixie" // Debian 13
	arch  = "amd64"
)

// Refresh resolves a recipe to the newest versions of its packages and returns the lock; it needs apt and the network.
// npm packages keep the version that the recipe names.
func Refresh(ctx context.Context, r Recipe, config Config) (Lock, error) {
	config = config.withDefaults()
	if config.Cache != "" {
		if err := os.MkdirAll(config.Cache, 0o755); err != nil {
			return Lock{}, fmt.Errorf("make package cache: %w", err)
		}
	}
	archive, err := archiveClient(config)
	if err != nil {
		return Lock{}, err
	}
	return refresh(ctx, r, config, &mirror{config: config, client: archive, suite: suite})
}

func refresh(ctx context.Context, r Recipe, config Config, m *mirror) (Lock, error) {
	lock := Lock{Schema: LockSchema, Image: r.Name, Suite: suite, Arch: arch, Repairs: Repairs, Requested: r.Packages}
	from, err := m.source(ctx)
	if err != nil {
		return Lock{}, fmt.Errorf("resolve %s: %w", r.Name, err)
	}
	config.Progress(0, -1, "resolving packages")
	lock.Packages, err = resolve(ctx, config, from, m.client, suite, arch, r.Packages, r.Omit)
	if err != nil {
		return Lock{}, fmt.Errorf("resolve %s: %w", r.Name, err)
	}
	if r.Kernel {
		lock.Packages = onlyKernel(lock.Packages)
	}
	if len(r.NPM) > 0 {
		base, err := registry(ctx, config)
		if err != nil {
			return Lock{}, fmt.Errorf("resolve %s: %w", r.Name, err)
		}
		for _, n := range r.NPM {
			t, err := integrity(ctx, client(config.Proxy), base, n)
			if err != nil {
				return Lock{}, fmt.Errorf("resolve %s: npm package %s %s: %w", r.Name, n.Name, n.Version, err)
			}
			lock.NPM = append(lock.NPM, t)
		}
	}
	if err := lock.validate(); err != nil {
		return Lock{}, fmt.Errorf("resolve %s: %w", r.Name, err)
	}
	return lock, nil
}

// maxManifestBytes bounds what a registry says about one version.
const maxManifestBytes = 1 << 20

// integrity asks the registry for the hash of a package.
func integrity(ctx context.Context, c *http.Client, registry string, n NPM) (Tarball, error) {
	address := registry + "/" + url.PathEscape(n.Name) + "/" + url.PathEscape(n.Version)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Tarball{}, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return Tarball{}, unwrapURL(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return Tarball{}, fmt.Errorf("the registry answers %s", resp.Status)
	}
	var manifest struct {
		Dist struct {
			Integrity string `json:"integrity"`
		} `json:"dist"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxManifestBytes)).Decode(&manifest); err != nil {
		return Tarball{}, fmt.Errorf("read the registry's answer: %w", err)
	}
	t := Tarball{Name: n.Name, Version: n.Version, In: n.In, Integrity: manifest.Dist.Integrity}
	return t, t.validate()
}

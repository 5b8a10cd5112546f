package recipe

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path"
	"strings"
	"time"
)

// ErrNoRegistry is in the error of a build that must download an npm package and does not know where from.
var ErrNoRegistry = errors.New("no npm registry is known: name one with --npm-registry URL, SILK_NPM_REGISTRY, `npm_registry:` in the configuration file or `registry=` in ~/.npmrc")

// npmTimeout bounds the question to npm, which takes half a second.
const npmTimeout = 20 * time.Second

// registry returns the base URL of the npm registry that this host uses, without a slash at the end.
func registry(ctx context.Context, config Config) (string, error) {
	address := config.NPMRegistry
	for _, name := range config.NPMConfig {
		if address != "" {
			break
		}
		data, err := os.ReadFile(name)
		if missing(err) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("read npm configuration: %w", err)
		}
		address = npmrcRegistry(string(data))
	}
	if address == "" {
		address = askNPM(ctx)
	}
	if address == "" {
		var err error
		if address, err = npmDefault(ctx, config); err != nil {
			return "", fmt.Errorf("%w: %w", ErrNoRegistry, err)
		}
	}
	u, err := url.Parse(address)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file") {
		return "", fmt.Errorf("npm registry %q is not an http, https or file URL", redact(address))
	}
	return strings.TrimRight(address, "/"), nil
}

// npmrcRegistry finds the last "registry = URL" line of an .npmrc, see npmrc(5).
func npmrcRegistry(text string) string {
	var address string
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, "=")
		if ok && strings.TrimSpace(key) == "registry" {
			address = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	return address
}

// askNPM asks an installed npm for its registry; "" if there is none or it does not answer.
func askNPM(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, npmTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "config", "get", "registry")
	cmd.Dir = "/" // not a project's own .npmrc
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	address := strings.TrimSpace(string(out))
	if err != nil || !strings.HasPrefix(address, "http") {
		return ""
	}
	return address
}

// tarballURL is where a registry keeps a package: every registry that npm can talk to accepts it.
func tarballURL(registry string, t Tarball) string {
	return registry + "/" + t.Name + "/-/" + path.Base(t.Name) + "-" + t.Version + ".tgz"
}

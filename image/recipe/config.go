package recipe

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"

	"github.com/silk-sandbox/silk/image"
)

// Config says where packages come from and where they, and images, are kept. Cache is required, and Store for [Build].
type Config struct {
	// Store receives the image.
	Store *image.Store

	// Cache keeps downloaded packages, named by their hashes, for all builds; made if missing. With everything in it,
	// a build needs no network.
	Cache string

	// Mirror is the base URL of a Debian archive (http, https or file). Empty means the one in the host's apt
	// configuration.
	Mirror string

	// NPMRegistry is the base URL of an npm registry. Empty means the one in NPMConfig.
	NPMRegistry string

	// NPMConfig lists npm's configuration files, the most important first; files that do not exist are passed over.
	// npm itself reads ~/.npmrc and /etc/npmrc. If none of them names a registry and npm is installed, npm is asked.
	NPMConfig []string

	// AptDir is the host's apt configuration; empty means /etc/apt.
	AptDir string

	// Proxy says how to reach a URL, normally http.ProxyFromEnvironment; nil means directly. For the Debian archive a
	// proxy in apt's configuration comes first.
	Proxy func(*http.Request) (*url.URL, error)

	// Frozen forbids to resolve again what the lock no longer finds in the archive.
	Frozen bool

	// SpoolDir is for temporary files, as large as the image; empty means Cache, which is on a disk with room for it.
	SpoolDir string

	// Progress is told of downloads and of unpacking, in bytes, from one goroutine at a time. May be nil.
	Progress image.Progress

	// Notice is told in one sentence what the user should know though the build goes on: that a version had left the
	// archive, for example. May be nil.
	Notice func(sentence string)

	// Compile, if not nil, compiles the image's Python files and Go's standard library ahead of time; without it each run
	// does, as the image is read-only. See CompileFunc.
	Compile CompileFunc
}

// CompileFunc runs job inside the image whose EROFS file root is, as any user, with a writable /workspace. It calls read
// with the tar stream of /workspace afterwards, names relative to it, and returns when read has. That the job ended
// with exit status 0 is for the function to check. root stays owned by the caller.
type CompileFunc func(ctx context.Context, root *os.File, job CompileJob, read func(workspace io.Reader) error) error

func (c Config) withDefaults() Config {
	if c.AptDir == "" {
		c.AptDir = "/etc/apt"
	}
	if c.SpoolDir == "" {
		c.SpoolDir = c.Cache
	}
	if c.Progress == nil {
		c.Progress = func(int64, int64, string) {}
	}
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	return c
}

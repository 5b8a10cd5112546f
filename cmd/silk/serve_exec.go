//go:build !server

package main

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/store"
)

// serve becomes the server's executable, which is a second one: what it links would cost each start of a sandbox 2 ms.
func (a *app) serve() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return missingf("the service needs Linux on amd64; elsewhere silk is a client: use --server URL")
	}
	path, err := a.serverPath()
	if err != nil {
		return err
	}
	return syscall.Exec(path, append([]string{path}, os.Args[1:]...), os.Environ())
}

// openDatabase becomes the server's executable, which does the same with the database that servers share: what speaks to it is
// linked there.
func (a *app) openDatabase(secret.Secret) (*store.DB, error) { return nil, a.serve() }

// openShared is nothing here: records and the trail of this executable's runs are in the state directory.
func (a *app) openShared(config) (*store.DB, error) { return nil, nil }

// serverPath finds the server's executable: where $SILK_SERVER says, beside silk, or where packages put it.
func (a *app) serverPath() (string, error) {
	if path := a.env("SILK_SERVER"); path != "" {
		return path, nil
	}
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil {
		return "", err
	}
	dir := filepath.Dir(exe)
	for _, path := range []string{filepath.Join(dir, serverName), filepath.Join(dir, "../lib/silk", serverName)} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", missingf("%s is neither beside silk nor in ../lib/silk; `make build` makes it, and packages install it", serverName)
}

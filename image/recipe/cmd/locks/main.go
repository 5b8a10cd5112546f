// Command locks refreshes the committed locks of the lab images: make locks. It runs where apt is and writes into the
// directory given as its first argument. Further arguments name images, and only their locks are refreshed.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"

	"github.com/silk-sandbox/silk/image/recipe"
	"github.com/silk-sandbox/silk/internal/atomicfile"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "locks:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) < 2 {
		return fmt.Errorf("usage: %s DIRECTORY [IMAGE...]", os.Args[0])
	}
	only := os.Args[2:]
	for _, name := range only {
		if _, ok := recipe.ByName(name); !ok {
			return fmt.Errorf("no lab image is called %q", name)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	config := recipe.Config{
		Mirror:      os.Getenv("SILK_MIRROR"),
		NPMRegistry: os.Getenv("SILK_NPM_REGISTRY"),
		NPMConfig:   []string{filepath.Join(home, ".npmrc"), "/etc/npmrc"},
		Proxy:       http.ProxyFromEnvironment,
	}
	if len(only) == 0 {
		npm, err := recipe.RefreshNPM(ctx, config)
		if err != nil {
			return err
		}
		if err := write(npm); err != nil {
			return err
		}
	}
	for _, r := range recipe.Recipes() {
		if len(only) > 0 && !slices.Contains(only, r.Name) {
			continue
		}
		lock, err := recipe.Refresh(ctx, r, config)
		if err != nil {
			return err
		}
		if err := write(lock); err != nil {
			return err
		}
		var bytes int64
		for _, p := range lock.Packages {
			bytes += p.Size
		}
		fmt.Printf("%s: %d packages, %d MB to download, %d npm packages\n", r.Name, len(lock.Packages), bytes>>20, len(lock.NPM))
	}
	return nil
}

func write(lock recipe.Lock) error {
	data, err := lock.Marshal()
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(os.Args[1], recipe.LockFile(lock.Image)), data, 0o644)
}

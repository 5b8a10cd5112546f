//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// config is what the command line says.
type config struct {
	out     string // the page to write
	silk    string // binaries
	sentry  string // silk's sandbox kernel, for warm starts
	runsc   string
	server  string // of silk serve
	gateway string
	agent   string // of virtual machines
	qemu    string // what runs those; empty: there is none
	home    string // state directory of silk, with the lab images
	n       int    // rounds of cold starts
	pairs   int    // pairs for what policy costs
	crowd   int    // sandboxes at once
	parts   string // comma-separated; empty: all
	insert  bool   // the section of virtual machines into a page that is there
}

func main() {
	var cfg config
	flag.StringVar(&cfg.out, "out", "docs/benchmarks.md", "write the report to `FILE`")
	flag.StringVar(&cfg.silk, "silk", "bin/silk", "silk's `BINARY`")
	flag.StringVar(&cfg.sentry, "sentry", "bin/silk-sentry", "silk's sandbox kernel's `BINARY`")
	flag.StringVar(&cfg.runsc, "runsc", "bin/runsc", "stock runsc's `BINARY`")
	flag.StringVar(&cfg.server, "server", "bin/silk-server", "silk serve's `BINARY`")
	flag.StringVar(&cfg.gateway, "gateway", "bin/silk-gateway", "silk's egress gateway's `BINARY`")
	flag.StringVar(&cfg.agent, "agent", "bin/silk-guest", "`BINARY` of the agent of virtual machines")
	flag.StringVar(&cfg.home, "home", os.Getenv("SILK_HOME"), "state `DIR` with the lab images")
	flag.IntVar(&cfg.n, "n", 15, "rounds of cold starts")
	flag.IntVar(&cfg.pairs, "pairs", 30, "pairs of runs for what policy and watching cost")
	flag.IntVar(&cfg.crowd, "crowd", 50, "sandboxes at once")
	flag.StringVar(&cfg.parts, "only", "", "only these `PARTS`: starts,warm,service,flow,memory,inside,network,overhead,machines")
	flag.BoolVar(&cfg.insert, "insert", false, "measure virtual machines only, and leave the other sections of the page as they are")
	flag.Parse()
	cfg.qemu, _ = exec.LookPath("qemu-system-x86_64")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := bench(ctx, cfg)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func (c config) images() string { return filepath.Join(c.home, "images") }

func bench(ctx context.Context, cfg config) (err error) {
	for _, path := range []*string{&cfg.silk, &cfg.sentry, &cfg.runsc, &cfg.server, &cfg.gateway, &cfg.agent, &cfg.home} {
		if *path, err = filepath.Abs(*path); err != nil {
			return err
		}
	}
	m, err := newMeter()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	scratch, err := os.MkdirTemp("", "silk-bench-")
	if err != nil {
		return fmt.Errorf("make scratch directory: %w", err)
	}
	defer func() { err = errors.Join(err, removeScratch(scratch)) }()
	// The programs run as another user than this one and must be able to reach their files.
	if err := os.Chmod(scratch, 0o755); err != nil {
		return fmt.Errorf("open scratch directory for others: %w", err)
	}
	for _, path := range []*string{&cfg.silk, &cfg.runsc, &cfg.server, &cfg.gateway} {
		if *path, err = install(*path, scratch); err != nil {
			return err
		}
	}
	r := report{date: time.Now().UTC().Format(time.DateOnly), n: cfg.n}
	if r.machine, err = describe(ctx, cfg); err != nil {
		return err
	}
	if cfg.insert {
		return r.insertMachines(ctx, cfg)
	}
	r.all = contenders(ctx, cfg, m, scratch)
	present := slices.DeleteFunc(slices.Clone(r.all), func(c contender) bool { return c.missing != nil })
	for _, c := range r.all {
		if c.missing != nil {
			progress("%s is not measured: %v", c.name, c.missing)
		}
	}
	roots, err := unpackAll(cfg, scratch)
	if err != nil {
		return err
	}
	if err := r.measure(ctx, m, cfg, scratch, present, roots); err != nil {
		return err
	}
	var page strings.Builder
	if err := r.write(&page); err != nil {
		return err
	}
	if cfg.out == "-" {
		_, err = os.Stdout.WriteString(page.String())
		return err
	}
	return atomicfile.Write(cfg.out, []byte(page.String()), 0o644)
}

// install copies a binary as an installation does. What the linker leaves lies in the page cache in pieces of 4 KiB,
// and starts some milliseconds slower than any later copy of it.
func install(binary, dir string) (string, error) {
	from, err := os.Open(binary)
	if errors.Is(err, fs.ErrNotExist) {
		return binary, nil // its contender is missing
	}
	if err != nil {
		return "", err
	}
	defer from.Close()
	path := filepath.Join(dir, filepath.Base(binary))
	to, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return "", fmt.Errorf("install %s: %w", binary, err)
	}
	if _, err := io.Copy(to, from); err != nil {
		return "", errors.Join(fmt.Errorf("install %s: %w", binary, err), to.Close())
	}
	return path, to.Close()
}

func (r *report) measure(ctx context.Context, m *meter, cfg config, scratch string, present []contender, roots map[string]rootfs) (err error) {
	wanted := func(part string) bool {
		return cfg.parts == "" || slices.Contains(strings.Split(cfg.parts, ","), part)
	}
	if wanted("starts") {
		if r.starts, err = coldStarts(ctx, m, cfg.n, present, roots); err != nil {
			return err
		}
		if lookup(cfg.silk) == nil {
			if r.trace, err = trace(ctx, cfg); err != nil {
				return err
			}
		}
	}
	if wanted("warm") {
		if r.warm, err = warmStarts(ctx, m, cfg, present, roots); err != nil {
			return err
		}
	}
	if wanted("service") && lookup(cfg.server) == nil {
		if err := r.measureService(ctx, cfg, scratch, present, roots); err != nil {
			return err
		}
	}
	present = slices.DeleteFunc(slices.Clone(present), func(c contender) bool { return c.name == unlimited || c.name == inDocker })
	if wanted("flow") {
		if r.flows, err = flows(ctx, present, roots["lab:text"]); err != nil {
			return err
		}
	}
	if wanted("memory") {
		for _, c := range present {
			one, err := crowd(ctx, c, roots["lab:text"], 1)
			if err != nil {
				return err
			}
			r.single = append(r.single, one)
		}
		for _, c := range present {
			if c.name != "silk" && c.name != "runsc" && c.name != "runc" {
				continue
			}
			many, err := crowd(ctx, c, roots["lab:text"], cfg.crowd)
			if err != nil {
				return err
			}
			r.crowds = append(r.crowds, many)
		}
	}
	if wanted("inside") {
		if r.inside, err = inside(ctx, m, present, roots); err != nil {
			return err
		}
	}
	silk := slices.IndexFunc(present, func(c contender) bool { return c.name == "silk" })
	runsc := slices.IndexFunc(present, func(c contender) bool { return c.name == "runsc" })
	if wanted("network") && silk >= 0 && runsc >= 0 {
		if r.networks, err = networks(ctx, cfg, m, scratch, roots["lab:python"]); err != nil {
			return err
		}
		if r.idleWay, err = idleWays(ctx, cfg.gateway); err != nil {
			return err
		}
	}
	if wanted("overhead") && silk >= 0 && runsc >= 0 {
		if r.overhead, err = overhead(ctx, m, cfg.pairs, present[silk], present[runsc], roots); err != nil {
			return err
		}
	}
	if wanted("machines") {
		if r.machines, err = measureMachines(ctx, cfg); err != nil {
			return err
		}
	}
	return nil
}

// unpackAll copies the images that the programs need into directories below scratch.
func unpackAll(cfg config, scratch string) (map[string]rootfs, error) {
	store, err := image.Open(image.Config{Home: cfg.images()})
	if err != nil {
		return nil, err
	}
	roots := map[string]rootfs{}
	for _, p := range startPrograms {
		img, err := store.Resolve(p.tag)
		if err != nil {
			return nil, err
		}
		file, err := store.OpenRoot(img)
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(scratch, strings.ReplaceAll(p.tag, ":", "-"))
		roots[p.tag], err = unpack(p.tag, file, dir)
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, err
		}
		progress("unpacked %s", p.tag)
	}
	return roots, nil
}

// removeScratch removes the scratch directory. runsc keeps an empty network namespace mounted in its state directory.
func removeScratch(dir string) error {
	pinned, err := filepath.Glob(filepath.Join(dir, "state-*", "null-netns"))
	if err != nil {
		return err
	}
	for _, path := range pinned {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) { // EINVAL: no mount
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	return os.RemoveAll(dir)
}

// trace asks silk to account for one start.
func trace(ctx context.Context, cfg config) (string, error) {
	c := exec.CommandContext(ctx, cfg.silk, "run", "--trace-start", "-p", "lab:text", "--", "true")
	c.Env = append(os.Environ(), "SILK_HOME="+cfg.home)
	out, err := c.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("trace a start: %w: %s", err, lastLines(string(out)))
	}
	return string(out), nil
}

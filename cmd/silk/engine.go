package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/broker"
	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/image"
	"github.com/silk-sandbox/silk/internal/nearest"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/store"
)

// host is what silk works with on this machine for one command: configuration, state directory, images, drivers.
type host struct {
	config config
	home   string
	images imageStore
	tools  hostTools

	shared   *shared         // of a server; nil: the database is in the state directory
	handoffs *handoff.Outbox // see outbox

	lookup func(policy.Request) (profile.Profile, error) // finds the profile of a request; nil: by its name or language

	scratch string // in place of the state directory, until close; "": there is one
}

// shared is what a server has of a database that it shares with others.
type shared struct {
	db    *store.DB
	id    string // this server's
	alive func(id string) bool
}

// openHost reads the configuration and opens what is there. It makes the state directory. watch asks for the host's
// kernel as a second watcher, as the configuration may.
func (a *app) openHost(watch bool) (*host, error) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	home, err := a.home(c)
	if err != nil {
		return nil, err
	}
	if err := makeHome(home); err != nil {
		return nil, err
	}
	return a.hostAt(c, home, home, watch)
}

// hostAt opens what is there. Drivers and images are in work: home, or what is in its place.
func (a *app) hostAt(c config, home, work string, watch bool) (h *host, err error) {
	h = &host{config: c, home: home}
	if h.images, err = openImageStore(c, work); err != nil {
		return nil, err
	}
	h.tools, err = a.drivers(driverConfig{Home: work, Sentry: a.env("SILK_SENTRY"), Gateway: a.env("SILK_GATEWAY"), Limits: c.egress.limits, Watch: watch || c.watch || c.mustWatch, Ready: a.ready, Contained: a.contained, Group: a.group, Logger: slog.New(slog.DiscardHandler), DockerHost: a.dockerHost(c), Images: h.images.Store, Kernel: a.env("SILK_KERNEL"), QEMU: findProgram("qemu-system-x86_64"), Firecracker: findProgram("firecracker"), Jailer: findProgram("jailer"), Console: a.env("SILK_CONSOLE") != ""})
	return h, err
}

// dockerHost is the address of the Docker Engine that the owner has named, or that of the environment if it is on this machine.
func (a *app) dockerHost(c config) string {
	if host := a.env("DOCKER_HOST"); c.docker.host == "" && strings.HasPrefix(host, "unix:///") {
		return host
	}
	return c.docker.host
}

// engine makes the engine that takes runs through their life. The caller closes it.
func (a *app) engine(h *host) (*run.Engine, error) {
	sinks, err := a.alerts(h)
	if err != nil {
		return nil, err
	}
	outbox, err := h.outbox(nil)
	if err != nil {
		return nil, err
	}
	trusted, err := h.config.egress.trusted()
	if err != nil {
		return nil, err
	}
	signer, err := a.signer(h)
	if err != nil {
		return nil, err
	}
	cfg := run.Config{
		Signer:   signer,
		Handoffs: outbox,
		Alert:    sinks.Raise,
		Audit:    h.config.audit,
		Home:     h.home,
		Decide:   h.decide,
		Drivers:  h.tools.Drivers,
		Images:   h.images,
		Egress:   h.tools.Egress,
		Secret:   a.secret(h.config.egress), Authorities: trusted,
		Stores:   h.config.grants.Stores,
		Snapshot: snapshot,
		Sweep:    h.tools.Sweep,
		Salvage:  h.salvage,

		KeepBytes: h.config.records.keep, Version: version,
	}
	if h.shared != nil {
		cfg.Store, cfg.Server, cfg.Alive = h.shared.db, h.shared.id, h.shared.alive
	}
	return run.New(cfg)
}

// signer opens, or makes, the key that signs records, unless the owner has a command that does.
func (a *app) signer(h *host) (record.Signer, error) {
	if s := h.config.records.signer; s.command != nil {
		keys, err := record.ReadPublicKeys(s.key)
		if err != nil {
			return nil, &hostError{err}
		}
		return record.External{Command: s.command, Key: keys[0], Timeout: s.timeout}, nil
	}
	keys, err := record.OpenKeyring(a.ctx, filepath.Join(h.home, keysDir))
	if err != nil {
		return nil, &hostError{err} // no typed nil
	}
	return keys, nil
}

// keysDir is the directory of keys in the state directory.
const keysDir = "keys"

// rootfsDir is where the images of containers' root file systems are known by what they were made of.
func (h *host) rootfsDir() string { return filepath.Join(h.home, "rootfs") }

// salvage returns what a server that was killed had kept of a channel.
func (h *host) salvage(run, channel string) ([]byte, error) {
	return broker.Salvage(filepath.Join(h.home, broker.DirName), run, channel)
}

func (h *host) decide(req policy.Request) (policy.Plan, error) {
	req.RequireWatch = req.RequireWatch || h.config.mustWatch
	lookup := h.lookup
	if lookup == nil {
		lookup = func(req policy.Request) (profile.Profile, error) {
			return h.config.profiles.Lookup(policy.ProfileFor(req))
		}
	}
	prof, err := lookup(req)
	var unknown *profile.UnknownError
	if errors.As(err, &unknown) {
		return policy.Plan{}, &policy.RequestError{Faults: []string{err.Error()}, Field: "profile"}
	}
	if err == nil && req.Skill != nil {
		prof, err = req.Skill.Profile(prof)
	}
	if err != nil {
		return policy.Plan{}, err
	}
	grants := h.config.grants
	if slices.ContainsFunc(h.tools.Drivers, func(d driver.Driver) bool { return d.Name() == jailedDriver }) {
		grants.Machine = jailedDriver
	}
	return policy.Decide(req, prof, grants)
}

// close releases what the drivers hold.
func (h *host) close() (err error) {
	if h.tools.Close != nil {
		err = h.tools.Close()
	}
	if h.scratch != "" {
		err = errors.Join(err, os.RemoveAll(h.scratch))
	}
	return err
}

// jailedDriver is the driver of virtual machines that is chosen where one is asked for.
const jailedDriver = "firecracker"

// knownDriver refuses a driver that this silk does not have, before anything starts.
func (h *host) knownDriver(name string) error {
	if len(h.tools.Drivers) == 0 && h.tools.WhyNone != nil {
		return missingf("%v", h.tools.WhyNone)
	}
	if name == "" || name == "auto" || slices.ContainsFunc(h.tools.Drivers, func(d driver.Driver) bool { return d.Name() == name }) {
		return nil
	}
	if why, ok := h.tools.Absent[name]; ok {
		return missingf("there is no driver %q here: %s", name, why)
	}
	var names []string
	for _, d := range h.tools.Drivers {
		names = append(names, d.Name())
	}
	if near := nearest.To(name, names); near != "" {
		return missingf("there is no driver %q here; did you mean %s?", name, near)
	}
	return missingf("there is no driver %q here; leave --driver out", name)
}

// systemStores are where packages, `make install` and root put images for everybody.
func systemStores(c config) []string {
	dirs := []string{c.systemStore}
	if exe, err := os.Executable(); err == nil {
		prefix := filepath.Dir(filepath.Dir(exe))
		dirs = append(dirs, filepath.Join(prefix, "lib/silk/images"), filepath.Join(prefix, "share/silk/images"), filepath.Join(prefix, ".silk/images")) // the last is a checkout's own
	}
	return append(dirs, hostStores...)
}

// hostStores are the places that do not depend on where silk is. Tests have none.
var hostStores = []string{"/usr/lib/silk/images", "/usr/share/silk/images", filepath.Join(rootHome, "images")}

// imageStore is where images are looked up: in the user's own store first, then in those that are only read.
type imageStore struct{ *image.Store }

func openImageStore(c config, home string) (imageStore, error) {
	own := filepath.Join(home, "images")
	var found []string
	for _, dir := range systemStores(c) {
		if info, err := os.Stat(dir); dir != "" && dir != own && err == nil && info.IsDir() && !slices.Contains(found, dir) {
			found = append(found, dir)
		}
	}
	store, err := image.Open(image.Config{Home: own, More: found})
	return imageStore{store}, err
}

// Resolve is that of the store, but says how a missing image is made.
func (s imageStore) Resolve(ref string) (image.Image, error) {
	img, err := s.Store.Resolve(ref)
	if isNotFound(err) {
		err = &noImageError{ref}
	}
	return img, err
}

// Open implements run.Images.
func (s imageStore) Open(_ context.Context, ref string) (run.Image, error) {
	img, err := s.Resolve(ref)
	if err != nil {
		return run.Image{}, err
	}
	meta, err := s.Meta(img)
	if err != nil {
		return run.Image{}, err
	}
	if len(meta.Trees) == 0 {
		return run.Image{}, missingf("image %s was stored by an older silk, which did not note what programs may read of it; build or import it again", ref)
	}
	root, err := s.OpenRoot(img)
	if err != nil {
		return run.Image{}, err
	}
	tools := make([]record.Tool, len(meta.Packages))
	for i, p := range meta.Packages {
		tools[i] = record.Tool{Name: p.Name, Version: p.Version}
	}
	return run.Image{Digest: img.Digest.String(), Root: root, Tools: tools, Trees: meta.Trees}, nil
}

// noImageError says that no store has an image. It is fs.ErrNotExist.
type noImageError struct{ ref string }

func (e *noImageError) Error() string {
	if isLab(e.ref) {
		return "there is no image " + e.ref + " yet; make it with: silk image build " + e.ref
	}
	return "there is no image " + e.ref + "; silk image ls lists those that are there"
}

func (e *noImageError) Unwrap() error { return fs.ErrNotExist }

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/silk-sandbox/silk/internal/regular"
	"github.com/silk-sandbox/silk/oci"
	"github.com/silk-sandbox/silk/oci/rootfs"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/run"
)

// decide puts into the record where the run comes from, and what is held otherwise than its spec says.
func (m *monitor) decide(with *run.IO, wish oci.Wish) {
	with.Decisions = append(with.Decisions, record.Decision{What: "container", Text: m.container.ID})
	for _, note := range wish.Notes {
		with.Decisions = append(with.Decisions, record.Decision{What: "runtime", Text: note})
	}
}

// read is what the bundle asks for. With an error it is what could be read, for the record.
func (m *monitor) read() (oci.Wish, error) {
	_, spec, err := readBundle(m.bundle)
	if err != nil {
		return oci.Wish{Request: policy.Request{Client: policy.ClientRuntime}}, err
	}
	return oci.Translate(spec, oci.Config{Bundle: m.bundle, Profile: m.flags.profile, Stdin: !isNull(m.app.in)})
}

// request makes the request of a wish, whose image is made if it is new. What the request says of the profile decides about it.
func (m *monitor) request(h *host, wish *oci.Wish) (policy.Request, error) {
	if wish.Hosts != "" {
		hosts, err := readHosts(wish.Hosts)
		if err != nil {
			return wish.Request, err
		}
		wish.Request.Overlays = append(wish.Request.Overlays, hosts)
	}
	prof, err := h.config.profiles.Lookup(wish.Request.Profile)
	var unknown *profile.UnknownError
	if errors.As(err, &unknown) && wish.Request.Profile == oci.DefaultProfile {
		prof, err = oci.Profile(), nil
	}
	if err != nil {
		return wish.Request, err
	}
	prof.ReadOnly = prof.ReadOnly || wish.ReadOnly
	if dir := wish.Request.Dir; dir != "" { // what it leads to must lie in a store
		if wish.Request.Dir, err = filepath.EvalSymlinks(dir); err != nil {
			return wish.Request, fmt.Errorf("find %s: %w", dir, err)
		}
	}
	req := wish.RequestFor(prof, h.config.grants)
	cache := rootfs.Cache{Images: h.images.Store, Dir: h.rootfsDir()}
	digest, made, err := cache.Image(m.ctx, wish.Root, rootfs.User(wish.User))
	if err != nil {
		return req, err
	}
	if made {
		wish.Notes = append(wish.Notes, "the image was made of the root file system")
	}
	prof.Image = digest
	h.lookup = func(policy.Request) (profile.Profile, error) { return prof, nil }
	return req, m.limitGroup(h, req)
}

// readHosts reads the file that is to lie over /etc/hosts. Engines make one for each container, but whoever asks for a container may name
// any: silk takes it only for what it should be, and waits for nothing.
func readHosts(source string) (policy.Overlay, error) {
	const to = "/etc/hosts"
	refused := func(why error) error {
		return &policy.Denial{Rule: policy.RuleMount, Detail: fmt.Sprintf("what is to be mounted on %s is not taken: %v", to, why), Fix: "leave it to the engine, which makes one, or use --add-host"}
	}
	f, err := regular.Open(source)
	if err != nil {
		return policy.Overlay{}, refused(err)
	}
	defer f.Close() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, oci.MaxHostsBytes+1))
	if err != nil {
		return policy.Overlay{}, refused(err)
	}
	hosts, err := oci.Hosts(data)
	if err != nil {
		return policy.Overlay{}, refused(err)
	}
	sum := sha256.Sum256(hosts)
	return policy.Overlay{Path: to, Bytes: hosts, SHA256: hex.EncodeToString(sum[:])}, nil
}

// isNull says whether f is a device that nobody writes to: an engine's stdin for a container that has none.
func isNull(f *os.File) bool {
	info, err := f.Stat()
	return err != nil || info.Mode()&os.ModeCharDevice != 0 && !isTerminal(f)
}

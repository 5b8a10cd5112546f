package run

import (
	"archive/tar"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/oklog/ulid/v2"

	"github.com/silk-sandbox/silk/driver"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/workspace"
)

// hostname is a sandbox's name for itself if its plan has none; the host's is nobody's business.
const hostname = "silk"

// SpecOf is what a driver would get of a plan, without descriptors: for those who explain it.
func SpecOf(p policy.Plan) (driver.Spec, error) { return specOf("explained", p) }

// specOf turns a plan into what a driver needs, without descriptors. It translates, and refuses what it does not know.
func specOf(id string, p policy.Plan) (driver.Spec, error) {
	spec := driver.Spec{
		ID:             id,
		Args:           p.Args,
		Env:            p.Env,
		Dir:            p.Dir,
		Hostname:       cmp.Or(p.Hostname, hostname),
		NoSpawn:        p.NoSpawn,
		ReadOnly:       p.ReadOnly,
		RequireWatch:   p.RequireWatch,
		MemoryBytes:    p.Limits.MemoryBytes,
		WorkspaceBytes: p.Limits.WorkspaceBytes,
		TmpBytes:       p.Limits.TmpBytes,
		ShmBytes:       p.Limits.ShmBytes,
		Processes:      p.Limits.Processes,
		CPUs:           p.Limits.CPUs,
	}
	if p.Held != nil {
		spec.Held = new(driver.Held(*p.Held))
	}
	for _, o := range p.Overlays {
		spec.Files = append(spec.Files, driver.File{Path: o.Path, Content: o.Bytes})
	}
	leads := p.Egress != nil
	switch {
	case p.Network == profile.NetworkDeny && !leads:
		spec.Network = driver.NetworkDeny
	case (p.Network == profile.NetworkLoopback || p.Network == profile.NetworkLocalFork) && !leads:
		spec.Network = driver.NetworkLoopback
	case (p.Network == profile.NetworkAllowlist || p.Network == profile.NetworkAllow || p.Network == profile.NetworkDeny) && leads: // deny: a service
		spec.Network = driver.NetworkLink
	default:
		return driver.Spec{}, &policy.Denial{Rule: policy.RuleNetwork, Detail: fmt.Sprintf("network %q is not known here", p.Network)}
	}
	return spec, nil
}

// sourceOf is what the workspace of a plan starts with.
func sourceOf(p policy.Plan) workspace.Source {
	s := workspace.Source{Dir: p.HostDir, Files: p.Files}
	if p.Kept != nil {
		s.Tar = p.Kept.Tar
	}
	for _, dir := range p.MakeDirs {
		s.Extra = append(s.Extra, workspace.File{Name: dir, Mode: fs.ModeDir | 0o755})
	}
	for _, u := range p.Uploads { // directories first: a file makes those that lead to it, with permissions of its own choice
		if u.Dir {
			s.Extra = append(s.Extra, workspace.File{Name: u.Name, Mode: fs.ModeDir | fs.FileMode(u.Mode)})
		}
	}
	for _, u := range p.Uploads {
		switch mode := fs.FileMode(u.Mode); {
		case u.Dir:
		case u.Link != "":
			s.Extra = append(s.Extra, workspace.File{Name: u.Name, Bytes: []byte(u.Link), Mode: fs.ModeSymlink})
		default:
			if mode == 0 && u.Executable {
				mode = 0o755
			}
			s.Extra = append(s.Extra, workspace.File{Name: u.Name, Bytes: u.Bytes, Mode: mode})
		}
	}
	if p.Code != nil && p.Code.Bytes != nil {
		s.Code = &workspace.File{Name: p.Code.Name, Bytes: p.Code.Bytes}
	}
	return s
}

// sawFile passes a tar stream through and tells whether name is in it. The stream is hostile: what cannot be read is not
// there, and nothing but the answer comes of it.
func sawFile(r io.Reader, name string) (_ io.Reader, saw func() bool) {
	pr, pw := io.Pipe()
	found := make(chan bool, 1)
	go func() {
		archive, is := tar.NewReader(pr), false
		for {
			h, err := archive.Next()
			if h != nil && path.Clean(h.Name) == name && h.Typeflag == tar.TypeReg {
				is = true
			}
			if h == nil || err != nil {
				break
			}
		}
		io.Copy(io.Discard, pr) // or the passing through would stop
		found <- is
	}()
	return io.TeeReader(r, pw), func() bool {
		pw.Close()
		return <-found
	}
}

// newID is a new run id: a ULID, whose random part is from the kernel. The library's own source is seeded with the time,
// which two processes may share.
func newID() string { return ulid.MustNew(ulid.Now(), rand.Reader).String() }

func hashText(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

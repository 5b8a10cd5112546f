// Package oci reads what a container engine asks for - the config.json of an OCI bundle - and says it in silk's words: a
// [policy.Request], the files that lie over the image, and notes on what is held in another way than the engine thinks.
//
//	spec, err := oci.Parse(data)
//	wish, err := oci.Translate(spec, oci.Config{Bundle: dir})
//	plan, err := policy.Decide(wish.RequestFor(prof, grants), prof, grants)
//
// It is pure: it opens no file and knows no host. A spec that makes no sense is a [*policy.RequestError]; what it asks for
// and a sandbox of silk's never has - a device, the host's network, a writable place of its own - is a [*policy.Denial]
// that names everything of the kind. What a sandbox holds more tightly than the spec is no refusal but a note, since engines
// ask for capabilities, namespaces and seccomp filters without being told to.
//
// The package does not run anything: oci/rootfs makes the image, oci/container is the state that engines ask for, and
// cmd/silk wires both to run.Engine.
package oci

import (
	"encoding/json"
	"fmt"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// DefaultProfile is the profile of a container that names none. The owner's configuration may have one of that name.
const DefaultProfile = "oci"

// Profile is [DefaultProfile] where the owner has not said what it is: no network, the limits of every run, and as ceilings
// what containers are commonly given.
func Profile() profile.Profile {
	return profile.Profile{
		Name:    DefaultProfile,
		Summary: "a container of an engine that uses silk as its OCI runtime",
		Network: profile.NetworkDeny,
		Limits:  profile.Defaults,
		Max:     profile.Limits{Timeout: maxTimeout, MemoryBytes: 4 << 30, CPUs: 4, Processes: 1024, TmpBytes: 1 << 30, ShmBytes: 1 << 30},
		Env:     profile.DefaultEnv,
		Ignore:  profile.CommonIgnore,
	}
}

// Config is what the engine has said beside the spec.
type Config struct {
	Bundle  string // directory of config.json, absolute
	Profile string // for containers whose annotations name none; empty: DefaultProfile
	Stdin   bool   // there is somebody at the other end of stdin
}

// Wish is what a spec asks for.
type Wish struct {
	Request  policy.Request // its Limits are what annotations ask for
	Limits   profile.Limits // what the spec itself allows at most; zero: it says nothing
	ReadOnly bool           // only /tmp can be written
	Root     string         // directory of the root file system, absolute
	User     User
	Hosts    string    // file of the host that is to lie over /etc/hosts, to be read by [Hosts] and added to Request; empty: none
	Size     [2]uint16 // columns and rows of the terminal; zero: not said
	CGroup   string    // cgroupsPath, as the engine writes it; empty: none
	Notes    []string  // what is held in another way, one sentence each
}

// User is who the process of a spec is. In the sandbox everybody is 1000; which files of the image that user may read
// follows from who it is here.
type User struct {
	UID    uint32
	GID    uint32
	Groups []uint32
}

// Parse reads a config.json.
func Parse(data []byte) (*specs.Spec, error) {
	var spec specs.Spec
	if err := json.Unmarshal(data, &spec); err != nil {
		return nil, &policy.RequestError{Faults: []string{fmt.Sprintf("config.json of the bundle: %v", err)}}
	}
	return &spec, nil
}

// RequestFor is the request under prof: what an annotation asks for, else what the spec allows, as far as prof or the owner allow
// it too. A limit of the spec is no wish: what goes beyond prof is cut and not refused.
func (w Wish) RequestFor(prof profile.Profile, owner policy.Grants) policy.Request {
	top := prof.Max.Or(prof.Limits)
	l := &w.Request.Limits
	fit(&l.MemoryBytes, w.Limits.MemoryBytes, max(top.MemoryBytes, owner.Max.MemoryBytes))
	fit(&l.CPUs, w.Limits.CPUs, max(top.CPUs, owner.Max.CPUs))
	fit(&l.Processes, w.Limits.Processes, max(top.Processes, owner.Max.Processes))
	fit(&l.TmpBytes, w.Limits.TmpBytes, max(top.TmpBytes, owner.Max.TmpBytes))
	fit(&l.ShmBytes, w.Limits.ShmBytes, max(top.ShmBytes, owner.Max.ShmBytes))
	return w.Request
}

// fit lowers asked to what the spec allows, or sets it where nothing is asked for.
func fit[T int | int64 | float64](asked *T, allowed, ceiling T) {
	switch {
	case allowed == 0:
	case *asked == 0:
		*asked = min(allowed, ceiling)
	default:
		*asked = min(*asked, allowed)
	}
}

//go:build server

package main

import (
	"os"
	"path/filepath"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/workspace"
)

func (s *service) profiles() ([]api.Profile, error) { return profilesOf(s.host.config.profiles) }

// profilesOf are the profiles as clients see them.
func profilesOf(set *profile.Set) ([]api.Profile, error) {
	list := []api.Profile{}
	for _, name := range set.Names() {
		p, err := set.Lookup(name)
		if err != nil {
			return nil, err
		}
		list = append(list, api.Profile{
			Name: p.Name, About: p.Summary, Image: p.Image, Language: p.Language, Network: p.Network, Hosts: p.Hosts, Limits: limitsOf(p.Limits), Max: limitsOf(p.Max),
		})
	}
	return list, nil
}

func limitsOf(l profile.Limits) api.Limits {
	return api.Limits{
		TimeoutMs: l.Timeout.Milliseconds(), MemoryBytes: l.MemoryBytes, CPUs: l.CPUs, Processes: l.Processes,
		WorkspaceBytes: l.WorkspaceBytes, TmpBytes: l.TmpBytes, ShmBytes: l.ShmBytes, OutputBytes: l.OutputBytes,
	}
}

// skillDir is where a directory leads that somebody else names as that of a skill, if it lies in a store.
func (h *host) skillDir(path string) (string, bool) {
	if !filepath.IsAbs(path) {
		return "", false
	}
	dir, err := workspace.CheckMount(path, workspace.Root+"/skill", h.config.grants.Stores)
	if err != nil {
		return "", false
	}
	info, err := os.Stat(dir)
	return dir, err == nil && info.IsDir()
}

func (s *service) images() ([]api.Image, error) {
	stored, err := s.host.images.List()
	if err != nil {
		return nil, err
	}
	list := []api.Image{}
	for _, img := range stored {
		tag := ""
		if len(img.Tags) > 0 {
			tag = img.Tags[0]
		}
		list = append(list, api.Image{Tag: tag, Digest: img.Digest.String(), Bytes: img.SizeBytes})
	}
	return list, nil
}

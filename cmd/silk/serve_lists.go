//go:build server

package main

import (
	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/profile"
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

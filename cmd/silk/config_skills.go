package main

import (
	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/profile"
)

// skillsConfig is what the configuration says of skills.
type skillsConfig struct {
	apiURL string // the one service that a skill with networkAccess reaches; "": none
}

func readSkills(d *strictyaml.Decoder, n strictyaml.Node) (c skillsConfig) {
	d.Fields(n, "skills", map[string]func(strictyaml.Node){
		"api_url": func(v strictyaml.Node) {
			c.apiURL = d.Text(v, "skills: api_url")
			if _, err := (profile.Service{URL: c.apiURL}).Endpoint(); err != nil {
				d.Fail(v, "skills: api_url: %v", err)
			}
		},
	})
	return c
}

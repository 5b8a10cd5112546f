package main

import (
	"strings"

	"github.com/silk-sandbox/silk/internal/strictyaml"
)

// dockerConfig is what the configuration says of a Docker Engine.
type dockerConfig struct {
	host string // as DOCKER_HOST has it; "": that of the environment, else the default
}

func readDocker(d *strictyaml.Decoder, n strictyaml.Node) (c dockerConfig) {
	d.Fields(n, "docker", map[string]func(strictyaml.Node){
		"host": func(v strictyaml.Node) {
			c.host = d.Text(v, "docker: host")
			if socket, ok := strings.CutPrefix(c.host, "unix://"); !ok || !strings.HasPrefix(socket, "/") {
				d.Fail(v, "docker: host is %q, which is not a socket of this machine, such as unix:///var/run/docker.sock", c.host)
			}
		},
	})
	return c
}

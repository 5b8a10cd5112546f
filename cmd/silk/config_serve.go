package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/profile"
)

// serveConfig is what the configuration says of `silk serve`.
type serveConfig struct {
	listen  string // host:port; "" only the socket
	socket  string // path; "": silk.sock in the state directory
	origins auth.Origins
	hosts   []string

	roles serveRoles

	running, queued           int // of the host
	tokenRunning, tokenQueued int
	ready                     int // sandbox kernels that wait for runs
	memoryBytes               int64
	cpus                      float64

	approvalFor time.Duration
	grace       time.Duration
	followIdle  time.Duration // how long a program waits for who follows it and takes nothing; 0: the default
	followAway  time.Duration // and is not connected
	ownLocal    bool

	database     secret.Secret // address of the PostgreSQL database that servers share; empty: the state directory has one of its own
	databaseFile string        // that has the address

	traces tracesConfig

	tls      bool
	certFile string // with keyFile; both "": made by silk
	keyFile  string
}

// defaultListen is "silk" on the keys of a telephone.
const defaultListen = "127.0.0.1:7455"

func defaultServe() serveConfig {
	return serveConfig{listen: defaultListen, roles: serveRoles{api: true, worker: true}, running: 2 * runtime.NumCPU(), ready: 2, grace: 30 * time.Second}
}

func readServe(d *strictyaml.Decoder, n strictyaml.Node) serveConfig {
	c := defaultServe()
	d.Fields(n, "serve", map[string]func(strictyaml.Node){
		"listen": func(v strictyaml.Node) { c.listen = d.Text(v, "serve: listen") },
		"socket": func(v strictyaml.Node) { c.socket = absolute(d, v, "serve: socket") },
		"origins": func(v strictyaml.Node) {
			origins, err := auth.ParseOrigins(d.Texts(v, "serve: origins"))
			if err != nil {
				d.Fail(v, "serve: %v", err)
			}
			c.origins = origins
		},
		"roles": func(v strictyaml.Node) {
			roles, err := readRoles(d.Texts(v, "serve: roles"))
			if err != nil {
				d.Fail(v, "serve: roles: %v", err)
			}
			c.roles = roles
		},
		"hosts":         func(v strictyaml.Node) { c.hosts = d.Texts(v, "serve: hosts") },
		"running":       func(v strictyaml.Node) { c.running = readCount(d, v, "serve: running") },
		"queued":        func(v strictyaml.Node) { c.queued = readCount(d, v, "serve: queued") },
		"token_running": func(v strictyaml.Node) { c.tokenRunning = readCount(d, v, "serve: token_running") },
		"token_queued":  func(v strictyaml.Node) { c.tokenQueued = readCount(d, v, "serve: token_queued") },
		"ready":         func(v strictyaml.Node) { c.ready = readCountOrNone(d, v, "serve: ready") },
		"memory":        func(v strictyaml.Node) { c.memoryBytes = readBytes(d, v, "serve: memory") },
		"cpus": func(v strictyaml.Node) {
			f, err := strconv.ParseFloat(d.Text(v, "serve: cpus"), 64)
			if err != nil || !(f > 0) || f > profile.MaxCPUs {
				d.Fail(v, "serve: cpus is not a number above 0")
			}
			c.cpus = f
		},
		"approval_for": func(v strictyaml.Node) { c.approvalFor = readDuration(d, v, "serve: approval_for") },
		"keep_artifacts": func(v strictyaml.Node) {
			d.Fail(v, "serve: keep_artifacts has another place now: write retention: {artifacts: %s}", d.Text(v, "serve: keep_artifacts"))
		},
		"grace":         func(v strictyaml.Node) { c.grace = readDuration(d, v, "serve: grace") },
		"follow_idle":   func(v strictyaml.Node) { c.followIdle = readDuration(d, v, "serve: follow_idle") },
		"follow_away":   func(v strictyaml.Node) { c.followAway = readDuration(d, v, "serve: follow_away") },
		"own_local":     func(v strictyaml.Node) { c.ownLocal = readBool(d, v, "serve: own_local") },
		"database":      func(v strictyaml.Node) { c.database = secret.New(d.Text(v, "serve: database")) },
		"database_file": func(v strictyaml.Node) { c.databaseFile = absolute(d, v, "serve: database_file") },
		"otlp":          func(v strictyaml.Node) { c.traces = readTraces(d, v) },
		"tls": func(v strictyaml.Node) {
			c.tls = true
			d.Fields(v, "serve: tls", map[string]func(strictyaml.Node){
				"cert": func(v strictyaml.Node) { c.certFile = absolute(d, v, "serve: tls: cert") },
				"key":  func(v strictyaml.Node) { c.keyFile = absolute(d, v, "serve: tls: key") },
			})
			if (c.certFile == "") != (c.keyFile == "") {
				d.Fail(v, "serve: tls has one of cert and key; give both, or neither for a certificate that silk makes")
			}
		},
	})
	if !c.database.Empty() && c.databaseFile != "" {
		d.Fail(n, "serve has database and database_file; give one of them")
	}
	return c
}

// serveRoles are what a server does: take requests, and run what was accepted.
type serveRoles struct{ api, worker bool }

func readRoles(names []string) (r serveRoles, err error) {
	for _, name := range names {
		switch name {
		case "api":
			r.api = true
		case "worker":
			r.worker = true
		default:
			return r, fmt.Errorf("there is no role %q; there are api and worker", name)
		}
	}
	if r == (serveRoles{}) {
		return r, errors.New("a server has the role api, worker, or both")
	}
	return r, nil
}

func readCount(d *strictyaml.Decoder, n strictyaml.Node, what string) int {
	i, err := strconv.Atoi(d.Text(n, what))
	if err != nil || i < 1 {
		d.Fail(n, "%s is not a whole number above 0", what)
	}
	return i
}

// readCountOrNone takes 0 too.
func readCountOrNone(d *strictyaml.Decoder, n strictyaml.Node, what string) int {
	if d.Text(n, what) == "0" {
		return 0
	}
	return readCount(d, n, what)
}

func readBytes(d *strictyaml.Decoder, n strictyaml.Node, what string) int64 {
	b, err := profile.ParseBytes(d.Text(n, what))
	if err != nil || b < 1 {
		d.Fail(n, "%s is not a size, such as 4GiB", what)
	}
	return b
}

// socketPath is where the unix socket is.
func (c serveConfig) socketPath(home string) string {
	if c.socket != "" {
		return c.socket
	}
	return filepath.Join(home, "silk.sock")
}

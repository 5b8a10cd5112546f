package main

import (
	"slices"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/handoff"
	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/run"
)

// handoffsConfig is what becomes of runs that did not end well.
type handoffsConfig struct {
	routes handoff.Routes // nil: the default
	sinks  []handoff.Sink
	keep   time.Duration // 0: the default
}

func readHandoffs(d *strictyaml.Decoder, n strictyaml.Node) (c handoffsConfig) {
	off := false
	d.Fields(n, "handoffs", map[string]func(strictyaml.Node){
		"off":    func(v strictyaml.Node) { off = readBool(d, v, "handoffs: off") },
		"routes": func(v strictyaml.Node) { c.routes = readRoutes(d, v) },
		"sinks":  func(v strictyaml.Node) { c.sinks = readSinks(d, v) },
		"keep":   func(v strictyaml.Node) { c.keep = readDuration(d, v, "handoffs: keep") },
	})
	if off {
		if c.routes != nil || c.sinks != nil {
			d.Fail(n, "handoffs has off, and routes or sinks; leave one of them out")
		}
		c.routes = handoff.Routes{}
	}
	return c
}

// readRoutes reads receivers by outcome. An outcome that is not named keeps the default.
func readRoutes(d *strictyaml.Decoder, n strictyaml.Node) handoff.Routes {
	routes := handoff.DefaultRoutes()
	kinds := []run.Kind{run.OK, run.Failed, run.Timeout, run.OOM, run.Violated, run.Denied, run.Canceled, run.Error}
	fields := map[string]func(strictyaml.Node){}
	for _, kind := range kinds {
		fields[string(kind)] = func(v strictyaml.Node) {
			routes[kind] = d.Texts(v, "handoffs: routes: "+string(kind))
			for i, receiver := range routes[kind] {
				if !slices.Contains(handoff.Receivers, receiver) {
					d.Fail(v, "handoffs: routes: %s names %q; there are %s", kind, receiver, strings.Join(handoff.Receivers, " and "))
				}
				if slices.Contains(routes[kind][:i], receiver) {
					d.Fail(v, "handoffs: routes: %s names %s twice", kind, receiver)
				}
			}
		}
	}
	d.Fields(n, "handoffs: routes", fields)
	return routes
}

// readSinks reads the list of places that hand-offs go to.
func readSinks(d *strictyaml.Decoder, n strictyaml.Node) (sinks []handoff.Sink) {
	d.Items(n, "handoffs: sinks", func(item strictyaml.Node) {
		var s handoff.Sink
		before := d.Faults()
		d.Fields(item, "an entry of sinks", map[string]func(strictyaml.Node){
			"name":      func(v strictyaml.Node) { s.Name = d.Text(v, "sinks: name") },
			"receivers": func(v strictyaml.Node) { s.Receivers = append([]string{}, d.Texts(v, "sinks: receivers")...) },
			"vault":     func(v strictyaml.Node) { s.Vault = absolute(d, v, "sinks: vault") },
			"webhook": func(v strictyaml.Node) {
				w := readWebhook(d, v)
				s.URL, s.SecretFile, s.Timeout = w.URL, w.SecretFile, w.Timeout
			},
		})
		if slices.ContainsFunc(sinks, func(other handoff.Sink) bool { return other.Name == s.Name }) {
			d.Fail(item, "two entries of sinks have the name %q; give one of them another", s.Name)
		}
		if d.Faults() == before { // else what is wrong has been said
			if err := s.Check(); err != nil {
				d.Fail(item, "%v", err)
			}
		}
		sinks = append(sinks, s)
	})
	return sinks
}

package main

import "github.com/silk-sandbox/silk/internal/strictyaml"

// tracesConfig is what the configuration says of traces. What it leaves out, variables OTEL_EXPORTER_OTLP_* may say.
type tracesConfig struct {
	wanted      bool   // there is a key otlp
	endpoint    string // base address of a collector
	headersFile string // lines NAME: VALUE
	certificate string // that the collector's is signed by
	gzip        bool
	content     bool // code, environment, input and output too
}

func readTraces(d *strictyaml.Decoder, n strictyaml.Node) tracesConfig {
	c := tracesConfig{wanted: true}
	d.Fields(n, "serve: otlp", map[string]func(strictyaml.Node){
		"endpoint":     func(v strictyaml.Node) { c.endpoint = d.Text(v, "serve: otlp: endpoint") },
		"headers_file": func(v strictyaml.Node) { c.headersFile = absolute(d, v, "serve: otlp: headers_file") },
		"certificate":  func(v strictyaml.Node) { c.certificate = absolute(d, v, "serve: otlp: certificate") },
		"gzip":         func(v strictyaml.Node) { c.gzip = readBool(d, v, "serve: otlp: gzip") },
		"content":      func(v strictyaml.Node) { c.content = readBool(d, v, "serve: otlp: content") },
	})
	return c
}

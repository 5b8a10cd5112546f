package main

import (
	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/retention"
)

// readRetention reads what goes when.
func readRetention(d *strictyaml.Decoder, n strictyaml.Node) (p retention.Policy) {
	d.Fields(n, "retention", map[string]func(strictyaml.Node){
		"records":   func(v strictyaml.Node) { p.Records = readDuration(d, v, "retention: records") },
		"output":    func(v strictyaml.Node) { p.Output = readDuration(d, v, "retention: output") },
		"artifacts": func(v strictyaml.Node) { p.Artifacts = readDuration(d, v, "retention: artifacts") },
		"images":    func(v strictyaml.Node) { p.Images = readDuration(d, v, "retention: images") },
		"budget":    func(v strictyaml.Node) { p.BudgetBytes = readBytes(d, v, "retention: budget") },
	})
	return p
}

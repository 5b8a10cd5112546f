package main

import (
	"path/filepath"

	"github.com/silk-sandbox/silk/internal/strictyaml"
)

// notesConfig is what the configuration says of notes.
type notesConfig struct {
	auto        []string // vaults in which {silk auto} means something: absolute paths
	attachments string   // folder of each vault for pictures; "": as the vault itself says
}

func readNotes(d *strictyaml.Decoder, n strictyaml.Node) notesConfig {
	var c notesConfig
	d.Fields(n, "notes", map[string]func(strictyaml.Node){
		"auto": func(v strictyaml.Node) {
			d.Items(v, "notes: auto", func(item strictyaml.Node) {
				c.auto = append(c.auto, filepath.Clean(absolute(d, item, "a vault of notes: auto")))
			})
		},
		"attachments": func(v strictyaml.Node) { c.attachments = d.Text(v, "notes: attachments") },
	})
	return c
}

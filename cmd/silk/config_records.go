package main

import (
	"time"

	"github.com/silk-sandbox/silk/internal/strictyaml"
	"github.com/silk-sandbox/silk/profile"
)

// recordsConfig is what the owner says about records.
type recordsConfig struct {
	keep   int64 // bytes of the workspace and of the input of a run, each; 0: the default, below: none
	signer signerConfig
}

// signerConfig is a command that signs in place of the key in the state directory.
type signerConfig struct {
	command []string // absolute path and arguments; nil: there is none
	key     string   // file with its public key
	timeout time.Duration
}

func readRecords(d *strictyaml.Decoder, n strictyaml.Node) (c recordsConfig) {
	d.Fields(n, "records", map[string]func(strictyaml.Node){
		"keep": func(v strictyaml.Node) {
			text := d.Text(v, "records: keep")
			if text == "0" || text == "none" {
				c.keep = -1
				return
			}
			size, err := profile.ParseBytes(text)
			if err != nil {
				d.Fail(v, "records: keep is %q: %v", text, err)
			}
			c.keep = size
		},
		"signer": func(v strictyaml.Node) { c.signer = readSigner(d, v) },
	})
	return c
}

func readSigner(d *strictyaml.Decoder, n strictyaml.Node) (c signerConfig) {
	d.Fields(n, "records: signer", map[string]func(strictyaml.Node){
		"command":    func(v strictyaml.Node) { c.command = d.Texts(v, "records: signer: command") },
		"public_key": func(v strictyaml.Node) { c.key = absolute(d, v, "records: signer: public_key") },
		"timeout":    func(v strictyaml.Node) { c.timeout = readDuration(d, v, "records: signer: timeout") },
	})
	switch {
	case len(c.command) == 0 || c.key == "":
		d.Fail(n, "records: signer needs a command, as a list of words, and the file of its public_key")
	case c.command[0] == "" || c.command[0][0] != '/':
		d.Fail(n, "records: signer: command begins with %q, which is not an absolute path", c.command[0])
	}
	return c
}

// Package schema says what requests to Firecracker's API may look like: the part that silk uses, written down by us from what Firecracker
// publishes, and as strict as it is. It is for tests and for the double that takes Firecracker's place in them; silk does not link it.
package schema

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

//go:embed schema.json
var text []byte

// bodies are the definitions that requests are held against. A path that ends in a slash has an id behind it, which the body repeats.
var bodies = map[string]struct{ definition, id string }{
	"PUT /machine-config": {"machine-config", ""},
	"PUT /boot-source":    {"boot-source", ""},
	"PUT /drives/":        {"drive", "drive_id"},
	"PUT /vsock":          {"vsock", ""},
	"PUT /entropy":        {"entropy", ""},
	"PUT /actions":        {"action", ""},
	"GET /":               {"", ""},
	"GET /version":        {"", ""},
}

var compiled = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("urn:silk:firecracker", doc); err != nil {
		return nil, err
	}
	all := map[string]*jsonschema.Schema{}
	for _, b := range bodies {
		if b.definition == "" {
			continue
		}
		if all[b.definition], err = c.Compile("urn:silk:firecracker#/$defs/" + b.definition); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// Check says why a request is none that Firecracker takes, or none of ours.
func Check(method, path string, body []byte) error {
	call := method + " " + path
	entry, known := bodies[call]
	id := ""
	if !known || path != "/" && strings.HasSuffix(path, "/") {
		at := strings.LastIndexByte(call, '/') + 1
		id = call[at:]
		if entry, known = bodies[call[:at]]; !known || id == "" || entry.id == "" {
			return fmt.Errorf("%s: there is no such request", call)
		}
	}
	if entry.definition == "" {
		if len(body) > 0 {
			return fmt.Errorf("%s: it has a body", call)
		}
		return nil
	}
	schemas, err := compiled()
	if err != nil {
		return err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	if err := schemas[entry.definition].Validate(doc); err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	if entry.id == "" {
		return nil
	}
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	if fields[entry.id] != id {
		return fmt.Errorf("%s: the body's %s is %v", call, entry.id, fields[entry.id])
	}
	return nil
}

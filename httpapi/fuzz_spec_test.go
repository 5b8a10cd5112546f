//go:build unix

package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// described is api/openapi.yaml as one who knows nothing else reads it.
type described struct {
	doc map[string]any
	ops []*operation

	frame   *jsonschema.Schema // what a WebSocket carries to the client
	command map[string]any     // and from it
}

// operation is one operation of it.
type operation struct {
	id, method, path string
	params           []param
	body             map[string]any // schema; nil: it takes none
	bodyCheck        *jsonschema.Schema
	answers          map[string]answers // by status
}

// param is one parameter of an operation.
type param struct {
	name, in string
	required bool
	schema   map[string]any
	check    *jsonschema.Schema
}

// answers are the documented answers of one status, by media type; a nil schema has no JSON.
type answers map[string]*jsonschema.Schema

const specURL = "file:///openapi.yaml"

// description reads the committed file, once.
var description = sync.OnceValue(func() *described {
	d, err := readDescription("../api/openapi.yaml")
	if err != nil {
		panic(err)
	}
	return d
})

func readDescription(file string) (*described, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		return nil, err
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020) // OpenAPI 3.1, section 4.8.24
	if err := c.AddResource(specURL, doc); err != nil {
		return nil, err
	}
	d := &described{doc: doc.(map[string]any)}
	d.command = object(d.doc, "components", "schemas", "Command")
	if d.frame, err = c.Compile(pointer([]string{"components", "schemas", "Frame"})); err != nil {
		return nil, err
	}
	for _, path := range slices.Sorted(maps.Keys(object(d.doc, "paths"))) {
		item := object(d.doc, "paths", path)
		for _, method := range slices.Sorted(maps.Keys(item)) {
			op, err := d.operation(c, path, method)
			if err != nil {
				return nil, fmt.Errorf("%s %s: %w", method, path, err)
			}
			d.ops = append(d.ops, op)
		}
	}
	return d, nil
}

func (d *described) operation(c *jsonschema.Compiler, path, method string) (_ *operation, err error) {
	at := []string{"paths", path, method}
	raw := object(d.doc, at...)
	op := &operation{id: raw["operationId"].(string), method: strings.ToUpper(method), path: path, answers: map[string]answers{}}
	list, _ := raw["parameters"].([]any)
	for i, p := range list {
		p := p.(map[string]any)
		required, _ := p["required"].(bool)
		out := param{name: p["name"].(string), in: p["in"].(string), required: required, schema: p["schema"].(map[string]any)}
		if out.check, err = c.Compile(pointer(append(at, "parameters", fmt.Sprint(i), "schema"))); err != nil {
			return nil, err
		}
		op.params = append(op.params, out)
	}
	if body := object(raw, "requestBody", "content", "application/json", "schema"); body != nil {
		op.body = body
		if op.bodyCheck, err = c.Compile(pointer(append(at, "requestBody", "content", "application/json", "schema"))); err != nil {
			return nil, err
		}
	}
	for status := range object(raw, "responses") {
		media := answers{}
		for kind := range object(raw, "responses", status, "content") {
			media[kind] = nil
			if !strings.HasSuffix(kind, "json") && kind != "text/event-stream" {
				continue
			}
			if media[kind], err = c.Compile(pointer(append(at, "responses", status, "content", kind, "schema"))); err != nil {
				return nil, err
			}
		}
		op.answers[status] = media
	}
	return op, nil
}

// object goes down a document; nil if there is no such way.
func object(doc map[string]any, way ...string) map[string]any {
	for _, step := range way {
		next, ok := doc[step].(map[string]any)
		if !ok {
			return nil
		}
		doc = next
	}
	return doc
}

func pointer(way []string) string {
	out := specURL + "#"
	for _, step := range way {
		step = strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D", "+", "%2B").Replace(step)
		out += "/" + step
	}
	return out
}

// resolve follows references.
func (d *described) resolve(schema map[string]any) map[string]any {
	for {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		schema = object(d.doc, strings.Split(strings.TrimPrefix(ref, "#/"), "/")...)
	}
}

// wrongs are the places of a value that its schema does not allow, in the words of problem details: "body.files[0].path". An
// empty list: it is as described.
func wrongs(schema *jsonschema.Schema, root string, value any) []string {
	err := schema.Validate(value)
	if err == nil {
		return nil
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return []string{root}
	}
	var places []string
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) > 0 {
			return
		}
		place := root
		for _, step := range e.InstanceLocation {
			if strings.Trim(step, "0123456789") == "" {
				place += "[" + step + "]"
			} else {
				place += "." + step
			}
		}
		places = append(places, place)
	}
	walk(invalid)
	return places
}

// decodeJSON decodes exactly one value.
func decodeJSON(text []byte) (any, error) {
	if !json.Valid(text) {
		return nil, errors.New("not one JSON value")
	}
	return jsonschema.UnmarshalJSON(bytes.NewReader(text))
}

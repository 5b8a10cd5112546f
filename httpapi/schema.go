package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// HandoffSchema is the JSON Schema (draft 2020-12) of what is handed on, silk.handoff/v1, made of the same types:
// api/handoff.schema.json is what it returns.
func HandoffSchema() ([]byte, error) {
	h := &handler{}
	h.register(http.NewServeMux())
	return h.handoffSchema()
}

// handoffSchema is HandoffSchema of an API that is registered.
func (h *handler) handoffSchema() ([]byte, error) {
	return standalone(h.api.OpenAPI().Components.Schemas.Map(), "HandoffContent", "urn:silk:schema:handoff:v1", "silk.handoff/v1")
}

// standalone is one schema of an API as a document of its own, with what it refers to. It takes properties that it does not know:
// they may be added.
func standalone(all map[string]*huma.Schema, name, id, title string) ([]byte, error) {
	defs := map[string]any{}
	var root map[string]any
	for next := []string{name}; len(next) > 0; next = next[1:] {
		if _, done := defs[next[0]]; done {
			continue
		}
		text, err := json.Marshal(all[next[0]])
		if err != nil {
			return nil, fmt.Errorf("encode schema %s: %w", next[0], err)
		}
		var one map[string]any
		if err := json.Unmarshal(text, &one); err != nil {
			return nil, fmt.Errorf("encode schema %s: %w", next[0], err)
		}
		next = append(next, unclosed(one)...)
		defs[next[0]] = one
		if next[0] == name {
			root = one
		}
	}
	delete(defs, name)
	root["$schema"], root["$id"], root["title"], root["$defs"] = "https://json-schema.org/draft/2020-12/schema", id, title, defs
	text, err := json.MarshalIndent(root, "", "  ")
	return append(text, '\n'), err
}

// unclosed lets a schema, and all in it, take unknown properties, turns its references to ones in its own document, and returns them.
func unclosed(v any) (refs []string) {
	switch v := v.(type) {
	case map[string]any:
		if v["additionalProperties"] == false {
			delete(v, "additionalProperties")
		}
		if ref, ok := v["$ref"].(string); ok {
			name := strings.TrimPrefix(ref, "#/components/schemas/")
			v["$ref"] = "#/$defs/" + name
			refs = append(refs, name)
		}
		for _, below := range v {
			refs = append(refs, unclosed(below)...)
		}
	case []any:
		for _, below := range v {
			refs = append(refs, unclosed(below)...)
		}
	}
	return refs
}

package httpapi

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"html/template"
	"net/http"
	"reflect"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/skill"
)

//go:embed docs.html
var docsPage string

var docsTemplate = template.Must(template.New("docs").Funcs(template.FuncMap{"json": indentJSON}).Parse(docsPage))

// documented is one operation on the page.
type documented struct {
	Method, Path string
	*huma.Operation
	Body any
}

// docs serves the description of the API: as YAML, and as one page that loads nothing from anywhere.
func (h *handler) docs(mux *http.ServeMux) {
	spec := sync.OnceValues(h.api.OpenAPI().YAML)
	page := sync.OnceValues(h.renderDocs)
	serve := func(kind, policy string, content func() ([]byte, error)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			text, err := content()
			if err != nil {
				h.refuse(w, h.problemOf(r.Context(), err))
				return
			}
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Security-Policy", policy)
			_, _ = w.Write(text) // the client has gone
		}
	}
	mux.HandleFunc("GET /openapi.yaml", serve("application/yaml", "default-src 'none'", spec))
	mux.HandleFunc("GET /schemas/handoff.json", serve("application/schema+json", "default-src 'none'", sync.OnceValues(h.handoffSchema)))
	mux.HandleFunc("GET /schemas/record.json", serve("application/schema+json", "default-src 'none'", func() ([]byte, error) { return api.RecordSchema, nil }))
	mux.HandleFunc("GET /schemas/skill.json", serve("application/schema+json", "default-src 'none'", func() ([]byte, error) { return skill.Schema, nil }))
	mux.HandleFunc("GET /docs", serve("text/html; charset=utf-8", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'", page))
}

func (h *handler) renderDocs() ([]byte, error) {
	openAPI := h.api.OpenAPI()
	var ops []documented
	for path, item := range openAPI.Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "DELETE": item.Delete} {
			if op == nil {
				continue
			}
			d := documented{Method: method, Path: path, Operation: op}
			if op.RequestBody != nil {
				for _, media := range op.RequestBody.Content {
					d.Body = media.Schema
				}
			}
			ops = append(ops, d)
		}
	}
	slices.SortFunc(ops, func(a, b documented) int {
		return bytes.Compare([]byte(a.Path+" "+a.Method), []byte(b.Path+" "+b.Method))
	})
	var out bytes.Buffer
	err := docsTemplate.Execute(&out, map[string]any{"Info": openAPI.Info, "Operations": ops, "Schemas": openAPI.Components.Schemas.Map()})
	return out.Bytes(), err
}

func indentJSON(v any) (string, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	return string(text), err
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

package record_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/record/recordtest"
)

// TestSchema: the published schema takes the golden records, and not what differs from them in a way that matters.
func TestSchema(t *testing.T) {
	for _, name := range []string{"full", "denied"} {
		text, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		if err := recordtest.Check(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, test := range []struct{ name, old, replacement string }{
			{"another schema", `"silk.run-record/v1"`, `"silk.run-record/v2"`},
			{"a hash that is none", strings.Repeat("a", 64), strings.Repeat("a", 63)},
			{"an unknown outcome", `"kind":"`, `"kind":"un`},
			{"a field is missing", `"decisions"`, `"decided"`},
			{"a number as text", `"wall_ms":`, `"wall_ms":"1","x":`},
		} {
			if changed := strings.Replace(string(text), test.old, test.replacement, 1); recordtest.Check([]byte(changed)) == nil {
				t.Errorf("%s: the schema takes %s", name, test.name)
			}
		}
	}
}

// TestSchemaHasEachField compares the schema with the type: each field of the one is in the other, and is required if it is always there.
func TestSchemaHasEachField(t *testing.T) {
	var doc map[string]any
	if err := json.Unmarshal(api.RecordSchema, &doc); err != nil {
		t.Fatal(err)
	}
	compare(t, doc, doc, reflect.TypeFor[record.Record](), "record")
}

func compare(t *testing.T, doc, schema map[string]any, typ reflect.Type, at string) {
	t.Helper()
	if ref, ok := schema["$ref"].(string); ok {
		schema = doc["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any)
	}
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	if typ.Kind() == reflect.Slice {
		items, ok := schema["items"].(map[string]any)
		if !ok {
			t.Errorf("%s: the schema says nothing of its items", at)
			return
		}
		compare(t, doc, items, typ.Elem(), at+"[]")
		return
	}
	properties, ok := schema["properties"].(map[string]any)
	if typ.Kind() != reflect.Struct || !ok {
		return
	}
	var names, always []string
	for i := range typ.NumField() {
		name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		if !strings.Contains(options, "omit") {
			always = append(always, name)
		}
		if below, ok := properties[name].(map[string]any); ok {
			compare(t, doc, below, typ.Field(i).Type, at+"."+name)
		}
	}
	var required []string
	for _, name := range schema["required"].([]any) {
		required = append(required, name.(string))
	}
	same(t, at+": properties", slices.Collect(maps.Keys(properties)), names)
	same(t, at+": required", required, always)
}

func same(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s are %v in the schema, %v in the type", what, got, want)
	}
}

package strictyaml

import (
	"errors"
	"strings"
	"testing"
)

// read decodes a small made-up schema.
func read(data string) (name string, tags []string, err error) {
	d, root := Open("x.yaml", []byte(data))
	d.Fields(root, "the file", map[string]func(Node){
		"name": func(n Node) { name = d.Text(n, "name") },
		"tags": func(n Node) { tags = d.Texts(n, "tags") },
		"free": func(n Node) {
			d.Entries(n, "free", func(key string, _, value Node) { tags = append(tags, key+"="+d.Text(value, key)) })
		},
	})
	return name, tags, d.Err()
}

func TestRead(t *testing.T) {
	tests := []struct {
		name, data, want string
		faults           []string
	}{
		{name: "plain", data: "name: a\ntags: [b, 1, true]\n", want: "a b 1 true"},
		{name: "block list and quotes", data: "name: 'a: b'\ntags:\n  - \"c\\td\"\n", want: "a: b c\td"},
		{name: "free keys keep their order", data: "free:\n  z: 1\n  a: 2e3\n", want: " z=1 a=2e3"},
		{name: "keys may hold colons", data: "free:\n  lab:text: x\n", want: " lab:text=x"},
		{name: "literal", data: "name: |\n  two\n  lines\n", want: "two\nlines\n"},
		{name: "empty", data: "", want: ""},
		{name: "comments only", data: "# nothing\n", want: ""},
		{name: "null is absent", data: "tags:\n", want: ""},
		{name: "misspelt key", data: "# c\nnmae: a\n", faults: []string{`x.yaml:2: unknown key "nmae" in the file; did you mean "name"?`}},
		{name: "unknown key", data: "zebra: a\n", faults: []string{`x.yaml:1: unknown key "zebra" in the file; known keys: free, name, tags`}},
		{name: "every fault", data: "name: [1]\ntags: x\nfoo: 1\n", faults: []string{
			"x.yaml:1: name must be text, not a list", `x.yaml:2: tags must be a list, not "x"`, `x.yaml:3: unknown key "foo"`,
		}},
		{name: "key twice", data: "name: a\nname: b\n", faults: []string{`x.yaml:2: mapping key "name" already defined`}},
		{name: "alias", data: "name: &x a\ntags: [*x]\n", faults: []string{"x.yaml:1: name must be text, not an anchor", "not an anchor, alias or merge key"}},
		{name: "merge key", data: "<<: {name: a}\n", faults: []string{"x.yaml:1:"}},
		{name: "tag", data: "name: !!binary aGk=\n", faults: []string{"tagged value"}},
		{name: "second document", data: "name: a\n---\nname: b\n", faults: []string{"x.yaml:3: a second document"}},
		{name: "lines of Windows", data: "name: a\r\ntags: [b]\r\n", want: "a b"},
		{name: "a return that ends no line", data: "---\n---\r---\nname: a\n", faults: []string{"x.yaml:2: a carriage return"}},
		{name: "a return at the end", data: "name: a\r", faults: []string{"x.yaml:1: a carriage return"}},
		{name: "not a mapping", data: "- a\n", faults: []string{"x.yaml:1: the file must be a mapping"}},
		{name: "syntax", data: "name: a\ntags: [b\n", faults: []string{"x.yaml:2:"}},
		{name: "deep", data: "name: " + strings.Repeat("[", 100000), faults: []string{"nests deeper"}},
		{name: "huge", data: strings.Repeat("#", maxBytes+1), faults: []string{"larger than"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name, tags, err := read(tt.data)
			if len(tt.faults) == 0 {
				if got := strings.Join(append([]string{name}, tags...), " "); err != nil || got != tt.want {
					t.Errorf("got %q, %v; want %q", got, err, tt.want)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an Error", err)
			}
			for _, f := range tt.faults {
				if !strings.Contains(err.Error(), f) {
					t.Errorf("%q is missing in:\n%v", f, err)
				}
			}
		})
	}
}

func FuzzOpen(f *testing.F) {
	f.Add("name: a\ntags: [b, *c]\n---\n? x : y\n")
	f.Add("&a [*a, !!map {<<: 1}]")
	f.Add("free:\n  - - - 'x\n")
	f.Fuzz(func(t *testing.T, data string) {
		_, _, err := read(data)
		var e *Error
		if err != nil && (!errors.As(err, &e) || len(e.Faults) == 0) {
			t.Errorf("error %v names no fault", err)
		}
	})
}

package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// testKey is the first account of Hardhat's and Anvil's test mnemonic: everybody knows it.
const (
	testKey     = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
	testAddress = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
)

// good is a manifest that holds, but for its signature.
func good() Manifest {
	return Manifest{
		Version: "1", Name: "price-check",
		Publisher:   Publisher{Name: "Ann", Address: testAddress, Contact: "ann@example.org"},
		Permissions: Permissions{TxActions: []string{"transfer", "approve"}, Chains: []int64{1, 8453}},
		Sandbox:     Sandbox{MemoryMb: DefaultMemoryMb, TimeoutMs: DefaultTimeoutMs},
		Files:       []File{{"index.js", strings.Repeat("a", 64)}, {"lib/x.js", strings.Repeat("0", 64)}},
		Signature:   "0x" + strings.Repeat("1b", 65),
	}
}

// changed is a manifest with one value replaced: by JSON pointer, by JSON text; "" takes the value away.
func changed(t testing.TB, pointer, value string) []byte {
	t.Helper()
	var root any
	if err := json.Unmarshal(good().Text(), &root); err != nil {
		t.Fatal(err)
	}
	var v any
	if value != "" {
		if err := json.Unmarshal([]byte(value), &v); err != nil {
			t.Fatal(err)
		}
	}
	at, steps := root, strings.Split(pointer, "/")[1:]
	for i, step := range steps {
		last := i == len(steps)-1
		switch in := at.(type) {
		case map[string]any:
			switch {
			case last && value == "":
				delete(in, step)
			case last:
				in[step] = v
			}
			at = in[step]
		case []any:
			n := int(step[0] - '0')
			if last {
				in[n] = v
			}
			at = in[n]
		}
	}
	text, err := json.Marshal(root)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestParse(t *testing.T) {
	tests := []struct {
		name, pointer, value string
		want                 string // pointers of the faults; "" is none
	}{
		{"as it is", "/version", `"1"`, ""},
		{"memory beyond the limit", "/sandbox/memoryMb", "513", "/sandbox/memoryMb"},
		{"memory at the limit", "/sandbox/memoryMb", "512", ""},
		{"no memory", "/sandbox/memoryMb", "0", "/sandbox/memoryMb"},
		{"a part of a megabyte", "/sandbox/memoryMb", "1.5", "/sandbox/memoryMb"},
		{"a whole number with a point", "/sandbox/memoryMb", "128.0", ""},
		{"a whole number with an exponent", "/sandbox/memoryMb", "1.28e2", ""},
		{"memory as text", "/sandbox/memoryMb", `"128"`, "/sandbox/memoryMb"},
		{"time beyond the limit", "/sandbox/timeoutMs", "60001", "/sandbox/timeoutMs"},
		{"too little time", "/sandbox/timeoutMs", "999", "/sandbox/timeoutMs"},
		{"an unknown field", "/author", `"Ann"`, "/author"},
		{"an unknown field below", "/sandbox/cpus", "4", "/sandbox/cpus"},
		{"an unknown field of a file", "/files/1/mode", "4", "/files/1/mode"},
		{"an unknown field whose name needs quoting", "/a~b", "4", "/a~0b"},
		{"no files", "/files", "[]", "/files"},
		{"files that are no list", "/files", "{}", "/files"},
		{"a bad name", "/name", `"Price Check"`, "/name"},
		{"a long name", "/name", `"` + strings.Repeat("a", 65) + `"`, "/name"},
		{"a name with a line behind it", "/name", `"a\n"`, "/name"},
		{"no name", "/name", "", "/name"},
		{"a bad hash", "/files/0/sha256", `"` + strings.Repeat("A", 64) + `"`, "/files/0/sha256"},
		{"a short hash", "/files/0/sha256", `"00"`, "/files/0/sha256"},
		{"no signature", "/signature", "", "/signature"},
		{"a signature that is none", "/signature", `"0xzz"`, "/signature"},
		{"an empty signature", "/signature", `"0x"`, "/signature"},
		{"another version", "/version", `"2"`, "/version"},
		{"a version that is a number", "/version", "1", "/version"},
		{"a bad address", "/publisher/address", `"0x12"`, "/publisher/address"},
		{"no publisher", "/publisher", "", "/publisher"},
		{"a publisher without a name", "/publisher/name", `""`, "/publisher/name"},
		{"a contact that is no address", "/publisher/contact", `"ann"`, "/publisher/contact"},
		{"a contact without a domain", "/publisher/contact", `"ann@localhost"`, "/publisher/contact"},
		{"an unknown action", "/permissions/txActions", `["steal"]`, "/permissions/txActions/0"},
		{"an action twice", "/permissions/txActions", `["approve","approve"]`, "/permissions/txActions/1"},
		{"no action", "/permissions/txActions", `[]`, ""},
		{"an unknown permission", "/permissions/root", "true", "/permissions/root"},
		{"a permission that is a word", "/permissions/networkAccess", `"yes"`, "/permissions/networkAccess"},
		{"chain zero", "/permissions/chains", "[1,0]", "/permissions/chains/1"},
		{"a chain that is no whole number", "/permissions/chains", "[1e300]", "/permissions/chains/0"},
		{"null", "/sandbox", "null", "/sandbox"},
		{"a path that leads out", "/files/0/path", `"../index.js"`, "/files/0/path"},
		{"an absolute path", "/files/0/path", `"/etc/passwd"`, "/files/0/path"},
		{"a path in Windows' form", "/files/0/path", `"lib\\x.js"`, "/files/0/path"},
		{"no path", "/files/0/path", `""`, "/files/0/path"},
		{"a path twice, in other letters", "/files/0/path", `"LIB/X.js"`, "/files/1/path"},
		{"a file below a file", "/files/0/path", `"lib"`, "/files/1/path"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse(changed(t, tt.pointer, tt.value))
			var invalid *InvalidError
			var at []string
			if errors.As(err, &invalid) {
				for _, f := range invalid.Faults {
					at = append(at, f.Path)
				}
			}
			if got := strings.Join(at, " "); got != tt.want || (err == nil) != (tt.want == "") {
				t.Errorf("faults at %q (%v), want %q", got, err, tt.want)
			}
			if err == nil && m.Name != "price-check" {
				t.Errorf("got %+v", m)
			}
		})
	}
}

func TestParseText(t *testing.T) {
	text := string(good().Text())
	for _, tt := range []struct{ name, text string }{
		{"nothing", ""},
		{"no JSON", "{"},
		{"two values", text + "{}"},
		{"a list", "[]"},
		{"a key twice", strings.Replace(text, `"version": "1"`, `"version": "1", "version": "1"`, 1)},
		{"bytes that are no text", strings.Replace(text, "Ann", "\xff", 1)},
		{"half of a surrogate pair", strings.Replace(text, "Ann", `\ud800`, 1)},
		{"too long", text + strings.Repeat(" ", MaxManifestBytes)},
	} {
		var invalid *InvalidError
		if m, err := Parse([]byte(tt.text)); !errors.As(err, &invalid) || len(invalid.Faults) == 0 {
			t.Errorf("%s: %+v, %v", tt.name, m, err)
		}
	}
	if _, err := Parse(bytes.Replace(good().Text(), []byte("Ann"), []byte(`Anné \ud83d\ude00`), 1)); err != nil {
		t.Errorf("a whole surrogate pair: %v", err)
	}
}

func TestParseAllFaults(t *testing.T) {
	_, err := Parse([]byte(`{"version":"0","name":"","publisher":{"name":"","address":"","contact":""},"sandbox":{"memoryMb":0,"timeoutMs":0,"allowSpawn":0},"x":1}`))
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	var at []string
	for _, f := range invalid.Faults {
		at = append(at, f.Path)
	}
	want := []string{
		"/version", "/name", "/publisher/name", "/publisher/address", "/publisher/contact", "/permissions", "/sandbox/memoryMb", "/sandbox/timeoutMs", "/sandbox/allowSpawn",
		"/files", "/signature", "/x",
	}
	if diff := cmp.Diff(want, at); diff != "" {
		t.Error(diff)
	}
}

func TestParseDraft(t *testing.T) {
	m := good()
	m.Signature = ""
	if got, err := ParseDraft(m.Text()); err != nil || got.Signature != "" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := ParseDraft(changed(t, "/signature", `"none"`)); err == nil {
		t.Error("a signature that is none was taken")
	}
}

// schema is the published schema in a library for such.
var schema = sync.OnceValue(func() *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("manifest.json", doc); err != nil {
		panic(err)
	}
	return c.MustCompile("manifest.json")
})

// same fails unless the schema takes v exactly if our shape does.
func same(t *testing.T, text []byte) {
	t.Helper()
	_, v, err := decode(text)
	if err != nil {
		return
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	theirs, ours := schema().Validate(doc), signed()("", v)
	if (theirs == nil) != (len(ours) == 0) {
		t.Errorf("%s\nthe schema says %v, silk %v", text, theirs, ours)
	}
}

func TestSchema(t *testing.T) {
	for _, pointer := range []string{
		"/version", "/name", "/publisher", "/publisher/name", "/publisher/address", "/publisher/contact", "/permissions", "/permissions/txActions", "/permissions/chains",
		"/permissions/networkAccess", "/permissions/filesystemAccess", "/sandbox", "/sandbox/memoryMb", "/sandbox/timeoutMs", "/sandbox/allowSpawn", "/files", "/files/0",
		"/files/0/path", "/files/0/sha256", "/signature", "/other", "/sandbox/other",
	} {
		for _, value := range []string{
			"", "null", "true", "0", "1", "-1", "128", "512", "513", "1000", "60000", "60001", "128.0", "1e3", "9007199254740991", "9007199254740992", "1e300", `""`, `"1"`, `"a"`,
			`"a-b\n"`, `"ann@example.org"`, `"a.b+c@x.y-z.example"`, `"a..b@example.org"`, `"a@example"`, `"` + testAddress + `"`, `"0xF0"`, `"` + strings.Repeat("a", 64) + `"`, `"\n"`, "[]", "[1]", "[1,1]",
			`["transfer"]`, `["transfer","transfer"]`, "{}", `[{"path":"a","sha256":"` + strings.Repeat("a", 64) + `"}]`,
		} {
			if value == "" && strings.HasPrefix(pointer, "/files/0") && pointer == "/files/0" {
				continue
			}
			same(t, changed(t, pointer, value))
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("{}"))
	f.Add(good().Text())
	f.Add(changed(f, "/permissions/chains", "[1e21,2]"))
	f.Add([]byte(`{"name":"\ud800"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		same(t, text)
		m, err := Parse(text)
		if err != nil {
			var invalid *InvalidError
			if !errors.As(err, &invalid) || len(invalid.Faults) == 0 || len(invalid.Faults) > maxFaults+1 {
				t.Fatalf("%v", err)
			}
			return
		}
		// What was read is all that there was: its canonical form is that of the text.
		again, err := Parse(m.Text())
		if err != nil || !slices.Equal(again.digest(), m.digest()) {
			t.Fatalf("%+v comes back as %+v, %v", m, again, err)
		}
		canonical, _, err := decode(text)
		if ours, _, _ := decode(m.Text()); err != nil || !bytes.Equal(canonical, ours) {
			t.Fatalf("read %s\nas %s", canonical, ours)
		}
		_ = m.Verify()
	})
}

func ExampleParse() {
	_, err := Parse([]byte(`{"version":"1","name":"no good"}`))
	fmt.Println(strings.Count(err.Error(), ";")+1, "faults")
	// Output: 6 faults
}

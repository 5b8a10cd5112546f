package skill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gowebpki/jcs"
)

// MaxManifestBytes bounds a manifest: one of [MaxFiles] files has a tenth of it.
const MaxManifestBytes = 1 << 20

// maxFaults bounds what is said about one manifest.
const maxFaults = 100

// Fault is one thing that is wrong with a manifest.
type Fault struct {
	Path    string `json:"path"` // JSON pointer (RFC 6901) of the value; "" is the whole
	Message string `json:"message"`
}

// InvalidError says what is wrong with a manifest.
type InvalidError struct{ Faults []Fault }

func (e *InvalidError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = strings.TrimSpace(f.Path + " " + f.Message)
	}
	return "the manifest is not valid: " + strings.Join(texts, "; ")
}

// Parse reads a signed manifest. What is wrong with it is an [*InvalidError] with every fault. The signature is only read: see
// [Manifest.Verify].
func Parse(text []byte) (Manifest, error) { return parse(text, false) }

// ParseDraft is Parse for a manifest that may have no signature yet.
func ParseDraft(text []byte) (Manifest, error) { return parse(text, true) }

func parse(text []byte, unsigned bool) (m Manifest, err error) {
	invalid := func(faults ...Fault) (Manifest, error) {
		if len(faults) > maxFaults {
			faults = append(faults[:maxFaults:maxFaults], Fault{"", fmt.Sprintf("has %d faults more", len(faults)-maxFaults)})
		}
		return Manifest{}, &InvalidError{faults}
	}
	if len(text) > MaxManifestBytes {
		return invalid(Fault{"", fmt.Sprintf("is longer than %d bytes", MaxManifestBytes)})
	}
	if len(text) == 0 {
		return invalid(Fault{"", "is missing"})
	}
	// What is signed is the canonical form, so that is what is read: it has each key once, and text that is text.
	canonical, v, err := decode(text)
	if err != nil {
		return invalid(Fault{"", "is no JSON text: " + err.Error()})
	}
	is := signed()
	if object, ok := v.(map[string]any); ok && unsigned {
		if _, ok := object["signature"]; !ok {
			is = draft()
		}
	}
	if faults := is("", v); len(faults) > 0 {
		return invalid(faults...)
	}
	if err := json.Unmarshal(canonical, &m); err != nil {
		return invalid(Fault{"", "cannot be read: " + err.Error()})
	}
	if faults := CheckPaths(m.Files); len(faults) > 0 {
		return invalid(faults...)
	}
	return m, nil
}

// decode is text in its canonical form, and its value.
func decode(text []byte) (canonical []byte, v any, err error) {
	if !utf8.Valid(text) {
		return nil, nil, errors.New("it is not UTF-8")
	}
	if canonical, err = jcs.Transform(append([]byte{}, text...)); err != nil {
		return nil, nil, err
	}
	d := json.NewDecoder(bytes.NewReader(canonical))
	d.UseNumber()
	err = d.Decode(&v)
	return canonical, v, err
}

// IsName says whether a skill may be called so.
func IsName(name string) bool {
	return name != "" && len(name) <= 64 && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// nameIn is the name in a manifest that may be no good otherwise, "" if there is none.
func nameIn(text []byte) string {
	if len(text) > MaxManifestBytes {
		return ""
	}
	var m struct{ Name any }
	if json.Unmarshal(text, &m) != nil {
		return ""
	}
	if name, ok := m.Name.(string); ok && IsName(name) {
		return name
	}
	return ""
}

func faultsOf(err error) []Fault {
	var invalid *InvalidError
	if errors.As(err, &invalid) {
		return invalid.Faults
	}
	return []Fault{{"", err.Error()}}
}

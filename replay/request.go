package replay

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// Schema names the version of [Request]'s JSON form. Fields are added without a new version.
const Schema = "silk.run-request/v1"

// Request is what is kept of a request: all that decides what is run, but for the bytes that it is run on, which lie beside it, and
// for values that may be secrets. All hashes are SHA-256 in lower-case hex.
type Request struct {
	Schema   string `json:"schema"`
	Run      string `json:"run"`
	Profile  string `json:"profile"`
	Language string `json:"language,omitempty"`

	Code *Code  `json:"code,omitempty"` // a file of the workspace; none: Args is the whole command
	Args []Text `json:"args"`
	Cwd  Text   `json:"cwd,omitempty"`
	Name string `json:"hostname,omitempty"`

	Env []Variable `json:"env"` // what the invoker gave; the rest follows from the profile

	Limits        profile.Limits `json:"limits"`
	Network       string         `json:"network"`
	Hosts         []string       `json:"hosts"`
	Secrets       []string       `json:"secrets,omitempty"` // NAME@HOST:PORT/Header
	NoSpawn       bool           `json:"no_spawn"`
	Deterministic bool           `json:"deterministic"`
	Held          *policy.Held   `json:"held,omitempty"` // with it
	Isolation     string         `json:"isolation,omitempty"`
	RequireWatch  bool           `json:"require_watch"`

	Driver string `json:"driver"` // that ran it
	Tag    string `json:"tag"`    // of the image, for whoever has to make it
	Image  string `json:"image"`  // its digest

	Workspace Part `json:"workspace"` // a tar stream, as it was put into the sandbox
	Stdin     Part `json:"stdin"`     // as far as it was handed over

	Obstacles []string `json:"obstacles,omitempty"` // why it cannot be replayed
}

// Code is the program of a request.
type Code struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	Given  string `json:"given,omitempty"` // "-c" or "-"
}

// Variable is one of the environment.
type Variable struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"` // of run id, name and value, with a zero byte between them: the value may be a secret
}

// Part is a stream of bytes that is kept beside the request.
type Part struct {
	Present bool   `json:"present"`
	SHA256  string `json:"sha256,omitempty"`
	Bytes   int64  `json:"bytes"`
}

// Text is a string of any bytes: JSON text where it is UTF-8, else {"b64": ...}.
type Text string

type encoded struct {
	B64 []byte `json:"b64"`
}

// MarshalJSON writes what UnmarshalJSON reads.
func (t Text) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(t)) {
		return json.Marshal(string(t))
	}
	return json.Marshal(encoded{[]byte(t)})
}

// UnmarshalJSON takes both forms.
func (t *Text) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err == nil {
		*t = Text(s)
		return nil
	}
	var e encoded
	if err := json.Unmarshal(data, &e); err != nil {
		return fmt.Errorf("read a text: %w", err)
	}
	*t = Text(e.B64)
	return nil
}

func texts(list []string) []Text {
	done := make([]Text, len(list))
	for i, s := range list {
		done[i] = Text(s)
	}
	return done
}

package skill

import (
	_ "embed"
	"encoding/json"
	"fmt"
)

// Schema is the JSON Schema (draft 2020-12) of a [Manifest]. [Parse] takes what it takes; besides, it wants each key once and
// paths that are different files ([CheckPaths]), which a schema cannot say.
//
//go:embed manifest.schema.json
var Schema []byte

// FileName is the name of a manifest beside the files of its skill.
const FileName = "manifest.json"

// Manifest is SkillManifest v1. All fields are needed, and there are no others.
type Manifest struct {
	Version     string      `json:"version"` // Version
	Name        string      `json:"name"`
	Publisher   Publisher   `json:"publisher"`
	Permissions Permissions `json:"permissions"`
	Sandbox     Sandbox     `json:"sandbox"`
	Files       []File      `json:"files"`               // the first one is what is run
	Signature   string      `json:"signature,omitempty"` // of a draft: ""
}

// Version is that of the manifests that this package knows.
const Version = "1"

// Publisher is who answers for a skill.
type Publisher struct {
	Name    string `json:"name"`
	Address string `json:"address"` // of the key that signs: 0x and 40 hex digits, whose case does not matter
	Contact string `json:"contact"` // e-mail
}

// Permissions are what a skill asks for.
type Permissions struct {
	TxActions        []string `json:"txActions"`        // shown and recorded: whoever signs transactions keeps to them
	Chains           []int64  `json:"chains"`           // as TxActions
	NetworkAccess    bool     `json:"networkAccess"`    // reaches the owner's API, and nothing else
	FilesystemAccess bool     `json:"filesystemAccess"` // shown and recorded; it widens nothing
}

// Sandbox are the limits of a skill.
type Sandbox struct {
	MemoryMb   int  `json:"memoryMb"`
	TimeoutMs  int  `json:"timeoutMs"`
	AllowSpawn bool `json:"allowSpawn"` // processes besides the first; threads there are always
}

// What limits may be, and what they are where nobody has thought about them.
const (
	MaxMemoryMb      = 512
	MinTimeoutMs     = 1000
	MaxTimeoutMs     = 60_000
	DefaultMemoryMb  = 128
	DefaultTimeoutMs = 30_000
)

// File is one file of a skill.
type File struct {
	Path   string `json:"path"`   // below the skill's directory, slash-separated
	SHA256 string `json:"sha256"` // 64 lower-case hex digits
}

// TxActions are the actions that a skill may ask for.
var TxActions = []string{"transfer", "transfer_native", "approve", "swap_exact_in", "swap_exact_out"}

// Text is the manifest as it is written into a file.
func (m Manifest) Text() []byte {
	text, err := json.MarshalIndent(m.whole(), "", "  ")
	if err != nil {
		panic(fmt.Sprintf("encode a manifest: %v", err)) // it has strings, numbers and flags
	}
	return append(text, '\n')
}

// whole is m with lists that are written as such if they are empty.
func (m Manifest) whole() Manifest {
	if m.Permissions.TxActions == nil {
		m.Permissions.TxActions = []string{}
	}
	if m.Permissions.Chains == nil {
		m.Permissions.Chains = []int64{}
	}
	if m.Files == nil {
		m.Files = []File{}
	}
	return m
}

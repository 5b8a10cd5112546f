// Package skills has the instructions that ship with silk for agents which load skills from a folder. They are text, and nothing
// in silk reads them.
package skills

import _ "embed"

// SandboxName is the name of the skill [Sandbox], and of its folder.
const SandboxName = "silk-sandbox"

// Sandbox is its SKILL.md: when to run code with silk, and how to read what comes of it.
//
//go:embed silk-sandbox/SKILL.md
var Sandbox []byte

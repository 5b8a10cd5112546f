package api

import "encoding/json"

// SkillRegistration is a skill to register. This and what is answered about skills is in its published form, which is not that of the
// rest of the API.
type SkillRegistration struct {
	Manifest json.RawMessage `json:"manifest" required:"false" doc:"SkillManifest v1, whose schema is at /schemas/skill.json"`
	BasePath string          `json:"basePath" required:"false" maxLength:"4096" doc:"Directory of its files on the server's host, inside a store that the owner listed"`
}

// SkillResult is what came of a registration.
type SkillResult struct {
	Registered   bool   `json:"registered"`
	Name         string `json:"name" doc:"Empty if the manifest has none that can be one"`
	ManifestHash string `json:"manifestHash" doc:"Keccak-256 of the canonical JSON without the signature, 0x and 64 hex digits; empty if it is refused"`
	Error        string `json:"error,omitempty" enum:"schema_validation_failed,signature_verification_failed,file_hash_mismatch,static_scan_failed,duplicate_skill"`

	ValidationErrors []SkillFault    `json:"validationErrors,omitempty"`
	HashMismatches   []SkillMismatch `json:"hashMismatches,omitempty"`
	ScanFindings     []SkillFinding  `json:"scanFindings,omitempty" doc:"Warnings too, also of a skill that is registered"`
}

// SkillFault is one thing that is wrong with a manifest.
type SkillFault struct {
	Path    string `json:"path" doc:"JSON pointer of the value; empty: the whole"`
	Message string `json:"message"`
}

// SkillMismatch is a file that is not what the manifest says.
type SkillMismatch struct {
	Path     string `json:"path"`
	Expected string `json:"expected"`
	Actual   string `json:"actual" doc:"Empty if it cannot be read"`
	Message  string `json:"message,omitempty" doc:"Why it cannot be read"`
}

// SkillFinding is what the scan found in a line of a file.
type SkillFinding struct {
	File     string `json:"file"`
	Line     int    `json:"line" doc:"From 1; 0 is the whole file"`
	Rule     string `json:"rule" enum:"dynamic_eval,child_process,network_access,fs_write,obfuscation,file_read_error"`
	Severity string `json:"severity" enum:"error,warning"`
	Message  string `json:"message"`
}

// Skill is a skill that was registered.
type Skill struct {
	Name             string          `json:"name"`
	PublisherAddress string          `json:"publisherAddress"`
	PublisherName    string          `json:"publisherName"`
	Manifest         json.RawMessage `json:"manifest"`
	ManifestHash     string          `json:"manifestHash"`
	Status           string          `json:"status" enum:"active,revoked"`
	RegisteredAt     int64           `json:"registeredAt" doc:"Unix milliseconds"`
	RevokedAt        *int64          `json:"revokedAt" nullable:"true" doc:"Null as long as it is active"`
}

// SkillRevoked says that a skill is revoked.
type SkillRevoked struct {
	Revoked bool   `json:"revoked"`
	Name    string `json:"name"`
}

// SkillMissing says that there is no such skill.
type SkillMissing struct {
	Error string `json:"error" enum:"skill_not_found"`
	Name  string `json:"name"`
}

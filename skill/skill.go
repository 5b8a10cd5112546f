// Package skill is about skills: small programs that somebody else has published, each with a signed manifest that says who
// that is, what the program is allowed, and which files it consists of.
//
// A [Manifest] is SkillManifest v1, as it was published; [Schema] is its JSON Schema. [Parse] reads one strictly and lists every
// fault. Its signature is over the Keccak-256 of its canonical JSON (RFC 8785) without the signature, on secp256k1, so that
// Ethereum's libraries make and check it too ([Manifest.Sign], [Manifest.Verify]). [ReadFiles] reads the files, each by the name and
// with the hash that the manifest gives, and none outside of their directory. [Scan] looks for what a reader would want to know
// of before such a program runs. [Check] is all of that in its published order; [Register] does it and keeps the skill, with an audit
// event, and [Load] gets it back for a run, checked again.
//
// The package runs nothing. What a skill may do is decided by package policy from the manifest and kept by a sandbox: the scan
// finds mistakes and the obvious, not whoever hides something.
package skill

// The published names of what may be wrong with a skill.
const (
	SchemaFailed    = "schema_validation_failed"
	SignatureFailed = "signature_verification_failed"
	HashMismatched  = "file_hash_mismatch"
	ScanFailed      = "static_scan_failed"
	Duplicate       = "duplicate_skill"
	NotFound        = "skill_not_found"
)

// Result is the answer to a registration, in its published form.
type Result struct {
	Registered   bool   `json:"registered"`
	Name         string `json:"name"`         // "" if the manifest has none that can be one
	ManifestHash string `json:"manifestHash"` // "" if it is refused
	Error        string `json:"error,omitempty"`

	ValidationErrors []Fault    `json:"validationErrors,omitempty"`
	HashMismatches   []Mismatch `json:"hashMismatches,omitempty"`
	ScanFindings     []Finding  `json:"scanFindings,omitempty"` // warnings too, also of a skill that is registered
}

// Skill is a manifest that holds, with what it is about.
type Skill struct {
	Manifest Manifest
	Hash     string // of the manifest: 0x and 64 hex digits
	Files    []Content
	Image    string // see Registered, for [Load]
}

// Check does what can be done without a store, in the published order: schema, signature, hashes of the files below dir, scan.
// An empty dir is one that nobody may name. Result.Error says where it ended, "" nowhere; only then is the skill whole. The error is about dir, not about what is in it.
func Check(text []byte, dir string) (s Skill, r Result, err error) {
	if s, r, err = verify(text, dir); err != nil || r.Error != "" {
		return Skill{}, r, err
	}
	r.ScanFindings = Scan(sources(s.Files), s.Manifest)
	for _, f := range r.ScanFindings {
		if f.Severity == SeverityError {
			r.Error = ScanFailed
			return Skill{}, r, nil
		}
	}
	return s, r, nil
}

// verify is Check without the scan.
func verify(text []byte, dir string) (s Skill, r Result, err error) {
	m, err := Parse(text)
	r.Name = nameIn(text)
	if err != nil {
		r.Error, r.ValidationErrors = SchemaFailed, faultsOf(err)
		return s, r, nil
	}
	if dir == "" {
		r.Error, r.ValidationErrors = SchemaFailed, fault("/basePath", "lies in no store that the owner listed (grants: stores:)")
		return s, r, nil
	}
	if err := m.Verify(); err != nil {
		r.Error, r.ValidationErrors = SignatureFailed, []Fault{{Path: "/signature", Message: err.Error()}}
		return s, r, nil
	}
	files, mismatches, err := ReadFiles(dir, m.Files)
	if err != nil {
		return s, r, err
	}
	if len(mismatches) > 0 {
		r.Error, r.HashMismatches = HashMismatched, mismatches
		return s, r, nil
	}
	return Skill{Manifest: m, Hash: m.Hash(), Files: files}, r, nil
}

func sources(files []Content) []Source {
	list := make([]Source, len(files))
	for i, f := range files {
		list[i] = Source{Path: f.Path, Text: f.Bytes}
	}
	return list
}

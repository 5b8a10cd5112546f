package serve

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// Fault is one thing that is wrong with a request.
type Fault struct {
	Field  string // "body.files[2].b64"
	Detail string // what is wrong and what would be right
}

// InvalidError says that a request cannot be read. Nothing was accepted.
type InvalidError struct{ Faults []Fault }

func (e *InvalidError) Error() string {
	texts := make([]string, len(e.Faults))
	for i, f := range e.Faults {
		texts[i] = f.Field + ": " + f.Detail
	}
	return strings.Join(texts, "; ")
}

// reading collects what is wrong with a request while it is turned into what policy decides about.
type reading struct{ faults []Fault }

func (r *reading) fault(field, format string, args ...any) {
	r.faults = append(r.faults, Fault{"body." + field, fmt.Sprintf(format, args...)})
}

// RequestOf turns what a client sent into what policy decides about. It does not look at the host: a client names no paths
// of it. An error is an [*InvalidError].
func RequestOf(in api.RunRequest) (policy.Request, error) {
	var r reading
	req := policy.Request{
		Client: r.door(in.Client), Profile: in.Profile, Language: in.Language, Args: in.Args, Env: in.Env,
		HasStdin: in.Stdin != nil || in.StdinOpen || in.Terminal != nil, Terminal: in.Terminal != nil,
		Limits: limitsOf(in.Limits), Network: in.Network, Hosts: in.Hosts, Secrets: in.Secrets, NoSpawn: in.NoSpawn, Deterministic: in.Deterministic,
		Driver: in.Driver, Isolation: in.Isolation, RequireWatch: in.RequireWatch,
	}
	if in.Stdin != nil && (in.StdinOpen || in.Terminal != nil) {
		r.fault("stdin", "the input is either in the request or sent later: leave stdin out, or stdin_open and terminal")
	}
	r.code(in, &req)
	for i, f := range in.Files {
		field := fmt.Sprintf("files[%d]", i)
		req.Uploads = append(req.Uploads, r.upload(field, f))
	}
	if r.faults != nil {
		return req, &InvalidError{r.faults}
	}
	return req, nil
}

// door is the kind of client that asks. A door other than the API's own says so itself; none of them may do more than it.
func (r *reading) door(client string) policy.Client {
	switch c := policy.Client(client); c {
	case "":
		return policy.ClientAPI
	case policy.ClientNote, policy.ClientMCP:
		return c
	}
	r.fault("client", "%q is not one of note and mcp", client)
	return policy.ClientMCP
}

// upload is one of the files.
func (r *reading) upload(field string, f api.File) policy.Upload {
	content := r.content(field, "text", "b64", f.Text, f.B64)
	sum := sha256.Sum256(content)
	u := policy.Upload{Name: f.Path, Bytes: content, SHA256: hex.EncodeToString(sum[:]), Executable: f.Executable, Mode: uint32(f.Mode), Dir: f.Directory}
	has := f.Text != nil || f.B64 != nil
	switch {
	case f.Link != nil && f.Directory:
		r.fault(field+".directory", "link is given too; leave one of them out")
	case f.Link != nil && has:
		r.fault(field+".link", "it has content too; leave one of them out")
	case f.Directory && has:
		r.fault(field+".directory", "it has content too; leave one of them out")
	case f.Link != nil && (f.Executable || f.Mode != 0):
		r.fault(field+".link", "a link has no permissions")
	case f.Executable && f.Mode != 0:
		r.fault(field+".mode", "executable is given too; leave one of them out")
	}
	if f.Link != nil {
		u.Link = *f.Link
	}
	return u
}

// code finds the program and the name that it has in /workspace.
func (r *reading) code(in api.RunRequest, req *policy.Request) {
	if in.Language != "" {
		if _, ok := profile.LanguageNamed(in.Language); !ok {
			r.fault("language", "no language is called %q; there are %s", in.Language, strings.Join(profile.LanguageNames(), ", "))
		}
	}
	if in.Code == nil && in.CodeB64 == nil {
		if in.Name != "" {
			r.fault("name", "it is the name of the code, and there is none")
		}
		if len(in.Args) == 0 && in.Terminal == nil {
			r.fault("code", "there is neither code nor a command in args")
		}
		return
	}
	code := r.content("", "code", "code_b64", in.Code, in.CodeB64)
	name := in.Name
	first, _, _ := bytes.Cut(code[:min(len(code), 256)], []byte("\n"))
	l, ok := profile.LanguageNamed(in.Language)
	if !ok {
		l, ok = profile.Detect(name, string(first), "")
	}
	if ok {
		req.Language = l.Name
		if name == "" {
			name = l.File
		}
	}
	if name == "" {
		name = "main" // the profile's own language
	}
	sum := sha256.Sum256(code)
	req.Code = &policy.Code{Name: name, Bytes: code, SHA256: hex.EncodeToString(sum[:])}
	if in.Name == "" {
		req.Code.Given = "code"
	}
}

// content is what one of two fields holds: text, or base64.
func (r *reading) content(parent, textName, b64Name string, text, b64 *string) []byte {
	if parent != "" {
		parent += "."
	}
	switch {
	case text != nil && b64 != nil:
		r.fault(parent+b64Name, "%s is given too; leave one of them out", textName)
	case b64 != nil:
		data, err := base64.StdEncoding.DecodeString(*b64)
		if err != nil {
			r.fault(parent+b64Name, "it is not standard base64: %v", err)
		}
		return append([]byte{}, data...) // never nil: nil is a file that lies elsewhere
	case text != nil:
		return append([]byte{}, *text...)
	}
	return []byte{}
}

func limitsOf(l api.Limits) profile.Limits {
	return profile.Limits{
		Timeout: time.Duration(l.TimeoutMs) * time.Millisecond, MemoryBytes: l.MemoryBytes, CPUs: l.CPUs, Processes: l.Processes,
		WorkspaceBytes: l.WorkspaceBytes, TmpBytes: l.TmpBytes, ShmBytes: l.ShmBytes, OutputBytes: l.OutputBytes,
	}
}

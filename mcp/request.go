package mcp

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
)

// options are what every run can be asked for. They narrow what the profile gives.
type options struct {
	Profile       string            `json:"profile,omitempty" jsonschema:"name of a profile, see list_profiles; left out, the language decides"`
	Args          []string          `json:"args,omitempty" jsonschema:"arguments of the program"`
	Stdin         *string           `json:"stdin,omitempty" jsonschema:"all of the program's input; left out, it is empty"`
	Env           map[string]string `json:"env,omitempty" jsonschema:"environment variables, added to the profile's"`
	TimeoutMs     int64             `json:"timeout_ms,omitempty" jsonschema:"wall clock limit, at most the profile's"`
	MemoryBytes   int64             `json:"memory_bytes,omitempty" jsonschema:"memory limit, at most the profile's"`
	CPUs          float64           `json:"cpus,omitempty" jsonschema:"processors, at most the profile's"`
	Processes     int               `json:"processes,omitempty" jsonschema:"processes and threads, at most the profile's"`
	Network       string            `json:"network,omitempty" jsonschema:"deny: no sockets; loopback: inside the sandbox only. At most the profile's"`
	Hosts         []string          `json:"hosts,omitempty" jsonschema:"host:port that the program may reach, such as api.example.org:443; only what the profile or the owner's configuration allows. In place of network"`
	NoSpawn       bool              `json:"no_spawn,omitempty" jsonschema:"the program may start no process"`
	Deterministic bool              `json:"deterministic,omitempty" jsonschema:"the same each time: fixed clocks and random numbers, one processor"`
}

// call is how the answer is wanted.
type call struct {
	Background bool `json:"background,omitempty" jsonschema:"return at once with the run's id; it ends with this session, and run_status and cancel_run are for it"`
	MaxOutput  int  `json:"max_output_bytes,omitempty" jsonschema:"output in the answer, head and tail of it; default 16384"`
}

type codeIn struct {
	Code     string `json:"code" jsonschema:"the program"`
	Language string `json:"language,omitempty" jsonschema:"language of the code, such as python, node or sh; left out, the profile's"`
	options
	call
}

type filesIn struct {
	Files    []fileIn `json:"files" jsonschema:"files below /workspace"`
	Entry    string   `json:"entry,omitempty" jsonschema:"path of the file to run; its extension gives the language. Either this or command"`
	Command  []string `json:"command,omitempty" jsonschema:"program and arguments, run in /workspace without a shell. Either this or entry"`
	Language string   `json:"language,omitempty" jsonschema:"language of entry, if its extension does not say"`
	options
	call
}

type planIn struct {
	Code     *string  `json:"code,omitempty" jsonschema:"as of run_code"`
	Files    []fileIn `json:"files,omitempty" jsonschema:"as of run_files"`
	Entry    string   `json:"entry,omitempty" jsonschema:"as of run_files"`
	Command  []string `json:"command,omitempty" jsonschema:"as of run_files"`
	Language string   `json:"language,omitempty" jsonschema:"of the code or entry"`
	options
}

type fileIn struct {
	Path       string  `json:"path" jsonschema:"below /workspace, such as src/main.py: relative, with slashes, without .."`
	Text       *string `json:"text,omitempty" jsonschema:"its content"`
	Base64     *string `json:"base64,omitempty" jsonschema:"its content, if it is not text"`
	Executable bool    `json:"executable,omitempty"`
}

// request is the part of a request that all tools share.
func (o options) request(language string) api.RunRequest {
	req := api.RunRequest{
		Client: string(policy.ClientMCP), Profile: o.Profile, Language: language, Args: o.Args, Stdin: o.Stdin,
		Limits:  api.Limits{TimeoutMs: o.TimeoutMs, MemoryBytes: o.MemoryBytes, CPUs: o.CPUs, Processes: o.Processes},
		Network: o.Network, Hosts: o.Hosts, NoSpawn: o.NoSpawn, Deterministic: o.Deterministic,
	}
	for _, name := range slices.Sorted(maps.Keys(o.Env)) {
		req.Env = append(req.Env, name+"="+o.Env[name])
	}
	return req
}

func (in codeIn) request() (api.RunRequest, error) {
	req := in.options.request(in.Language)
	if len(in.Code) > maxCode {
		return req, tooMuch("bytes of code", len(in.Code), maxCode)
	}
	if in.Language == "" && in.Profile == "" && !strings.HasPrefix(in.Code, "#!") {
		return req, &RequestError{"name the language of the code: " + strings.Join(profile.LanguageNames(), ", ")}
	}
	req.Code = &in.Code
	return req, nil
}

func (in filesIn) request() (api.RunRequest, error) {
	req := in.options.request(in.Language)
	if (in.Entry == "") == (len(in.Command) == 0) {
		return req, &RequestError{"name what is to run: either entry, one of the files, or command"}
	}
	total, found := 0, false
	for _, f := range in.Files {
		total += size(f.Text) + size(f.Base64)*3/4
		if f.Path == in.Entry {
			req.Code, req.CodeB64, req.Name, found = f.Text, f.Base64, f.Path, true
			if f.Text == nil && f.Base64 == nil {
				req.Code = new(string)
			}
			continue
		}
		req.Files = append(req.Files, api.File{Path: f.Path, Text: f.Text, B64: f.Base64, Executable: f.Executable})
	}
	switch {
	case total > maxAllFiles:
		return req, tooMuch("bytes of files", total, maxAllFiles)
	case len(in.Files) > maxFiles:
		return req, tooMuch("files", len(in.Files), maxFiles)
	case in.Entry != "" && !found:
		return req, &RequestError{"entry " + line(in.Entry, 200) + " is not one of the files"}
	case in.Entry == "" && len(in.Args) > 0:
		return req, &RequestError{"args are those of entry; put them into command"}
	case in.Entry == "":
		req.Args = in.Command
	}
	return req, nil
}

func (in planIn) request() (api.RunRequest, error) {
	files := filesIn{Files: in.Files, Entry: in.Entry, Command: in.Command, Language: in.Language, options: in.options}
	if in.Code == nil {
		return files.request()
	}
	if in.Entry != "" || len(in.Command) > 0 || len(in.Files) > 0 {
		return api.RunRequest{}, &RequestError{"code is the whole program; leave files, entry and command out, or code"}
	}
	return codeIn{Code: *in.Code, Language: in.Language, options: in.options}.request()
}

func size(text *string) int {
	if text == nil {
		return 0
	}
	return len(*text)
}

func tooMuch(what string, n, most int) error {
	return &RequestError{fmt.Sprintf("%s: %d, and no more than %d can come with one call; do with less, or let the program make it", what, n, most)}
}

package mcp

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/profile"
)

type readIn struct {
	Run      string `json:"run" jsonschema:"id of the run"`
	Channel  string `json:"channel,omitempty" jsonschema:"stdout or stderr; either this or artifact"`
	Artifact string `json:"artifact,omitempty" jsonschema:"path of a file that the run made, as its list of artifacts has it"`
	Offset   int64  `json:"offset,omitempty" jsonschema:"of the first byte"`
	Length   int    `json:"length,omitempty" jsonschema:"bytes at most; default 16384"`
	Base64   bool   `json:"base64,omitempty" jsonschema:"the bytes themselves in base64, in place of text"`
}

// piece is a part of a stream of bytes.
type piece struct {
	data []byte
	from int64
	end  int64 // of the stream so far
	live bool  // more may come
}

// readOutput has no structured content on purpose: some clients show their model nothing else when there is some, and images only
// come as content.
func (s *Server) readOutput(ctx context.Context, _ *sdk.CallToolRequest, in readIn) (*sdk.CallToolResult, any, error) {
	if (in.Channel == "") == (in.Artifact == "") {
		return nil, nil, &RequestError{"name what is to be read: either channel, stdout or stderr, or artifact"}
	}
	in.Length = cmp.Or(in.Length, defaultOutput)
	var p piece
	var err error
	if in.Artifact != "" {
		if in.Offset == 0 && !in.Base64 {
			if out, err := s.wholeImage(ctx, in); err != nil || out != nil {
				return out, nil, err
			}
		}
		r, openErr := s.cfg.Engine.Artifact(ctx, in.Run, in.Artifact)
		p, err = part(r, openErr, in)
	} else {
		p, err = s.readChannel(ctx, in)
	}
	if err != nil {
		return nil, nil, s.public(ctx, err)
	}
	return &sdk.CallToolResult{Content: p.content(in.Base64)}, nil, nil
}

// wholeImage is the answer for an artifact that is an image; nil for others.
func (s *Server) wholeImage(ctx context.Context, in readIn) (*sdk.CallToolResult, error) {
	r, err := s.cfg.Engine.Look(ctx, in.Run)
	if err != nil {
		return nil, s.public(ctx, err)
	}
	if r.Outcome == nil {
		return nil, errors.New("the run has not ended; its files can be read then")
	}
	i := slices.IndexFunc(r.Outcome.Artifacts, func(a api.Artifact) bool { return a.Path == in.Artifact && picture(a) })
	if i < 0 {
		return nil, nil
	}
	content, err := s.image(ctx, in.Run, r.Outcome.Artifacts[i])
	if err != nil {
		return nil, s.public(ctx, err)
	}
	return &sdk.CallToolResult{Content: []sdk.Content{content}}, nil
}

// readChannel reads what a run prints or printed.
func (s *Server) readChannel(ctx context.Context, in readIn) (piece, error) {
	if l, ok := s.lookup(in.Run); ok {
		data, from, end := l.channel(in.Channel).read(in.Offset, in.Length)
		return piece{data, from, end, true}, nil
	}
	r, err := s.cfg.Engine.Look(ctx, in.Run)
	if err != nil {
		return piece{}, err
	}
	if r.Outcome == nil {
		return piece{}, &RequestError{"the run has not ended, and another client has begun it: its output can be read when it has ended"}
	}
	out, err := s.cfg.Engine.Output(ctx, in.Run, in.Channel)
	return part(out, err, in)
}

// part reads the part of r that is asked for, and all of the rest to see how much there is. It closes r.
func part(r io.ReadCloser, openErr error, in readIn) (piece, error) {
	if openErr != nil {
		return piece{}, openErr
	}
	defer r.Close()
	skipped, err := io.CopyN(io.Discard, r, in.Offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return piece{}, fmt.Errorf("read output: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(in.Length)))
	if err != nil {
		return piece{}, fmt.Errorf("read output: %w", err)
	}
	rest, err := io.Copy(io.Discard, r)
	if err != nil {
		return piece{}, fmt.Errorf("read output: %w", err)
	}
	return piece{data: data, from: skipped, end: skipped + int64(len(data)) + rest}, nil
}

// content is the piece and a line that says which one it is.
func (p piece) content(raw bool) []sdk.Content {
	to := p.from + int64(len(p.data))
	about := fmt.Sprintf("bytes %d to %d of %d", p.from, to, p.end)
	switch {
	case p.end == 0:
		about = "it is empty"
	case len(p.data) == 0:
		about = fmt.Sprintf("there is nothing at this offset: it ends at byte %d", p.end)
	case to < p.end:
		about += fmt.Sprintf("; go on at offset %d", to)
	}
	if p.live {
		about += "; the run has not ended"
	}
	if raw {
		return []sdk.Content{&sdk.TextContent{Text: about}, &sdk.TextContent{Text: base64.StdEncoding.EncodeToString(p.data)}}
	}
	return []sdk.Content{&sdk.TextContent{Text: about}, &sdk.TextContent{Text: clean(p.data)}}
}

type profileOf struct {
	Name      string     `json:"name"`
	About     string     `json:"about,omitempty"`
	Languages []string   `json:"languages"`
	Network   string     `json:"network"`
	Hosts     []string   `json:"hosts,omitempty" jsonschema:"what its programs may reach"`
	Limits    api.Limits `json:"limits" jsonschema:"what a run gets"`
	Max       api.Limits `json:"max" jsonschema:"what a run can ask for"`
}

type profilesOut struct {
	Profiles []profileOf `json:"profiles"`
}

func (s *Server) listProfiles(ctx context.Context, _ *sdk.CallToolRequest, _ struct{}) (*sdk.CallToolResult, profilesOut, error) {
	list, err := s.cfg.Engine.Profiles(ctx)
	if err != nil {
		return nil, profilesOut{}, s.public(ctx, err)
	}
	out := profilesOut{Profiles: []profileOf{}}
	for _, p := range list {
		of := profileOf{Name: p.Name, About: p.About, Network: p.Network, Hosts: p.Hosts, Languages: []string{}, Limits: p.Limits, Max: filled(p.Max, p.Limits)}
		for _, l := range profile.Languages() {
			if l.Profile == p.Name || l.Name == p.Language {
				of.Languages = append(of.Languages, l.Name)
			}
		}
		out.Profiles = append(out.Profiles, of)
	}
	return nil, out, nil
}

// filled is a with what b has where a has nothing.
func filled(a, b api.Limits) api.Limits {
	return api.Limits{
		TimeoutMs: cmp.Or(a.TimeoutMs, b.TimeoutMs), MemoryBytes: cmp.Or(a.MemoryBytes, b.MemoryBytes), CPUs: cmp.Or(a.CPUs, b.CPUs), Processes: cmp.Or(a.Processes, b.Processes),
		WorkspaceBytes: cmp.Or(a.WorkspaceBytes, b.WorkspaceBytes), TmpBytes: cmp.Or(a.TmpBytes, b.TmpBytes), ShmBytes: cmp.Or(a.ShmBytes, b.ShmBytes), OutputBytes: cmp.Or(a.OutputBytes, b.OutputBytes),
	}
}

// planOut is a preview as a model reads it.
type planOut struct {
	Refused  *api.Denial       `json:"refused,omitempty" jsonschema:"why nothing would run"`
	Hash     string            `json:"hash,omitempty"`
	Driver   string            `json:"driver,omitempty"`
	Image    string            `json:"image,omitempty"`
	Plan     map[string]any    `json:"plan,omitempty" jsonschema:"everything that was decided"`
	Notes    []string          `json:"notes" jsonschema:"what this host cannot enforce, or enforces otherwise"`
	Enforced []api.Enforcement `json:"enforced" jsonschema:"what ends the run, by rule, and what fails in it"`
}

func (s *Server) plan(ctx context.Context, _ *sdk.CallToolRequest, in planIn) (*sdk.CallToolResult, planOut, error) {
	req, err := in.request()
	if err != nil {
		return nil, planOut{}, err
	}
	p, err := s.cfg.Engine.Plan(ctx, req)
	if err != nil {
		return nil, planOut{}, s.public(ctx, err)
	}
	out := planOut{Refused: p.Denial, Hash: p.Hash, Driver: p.Driver, Image: p.Image, Notes: p.Notes, Enforced: p.Enforced}
	if p.Plan != nil {
		if err := json.Unmarshal(p.Plan, &out.Plan); err != nil {
			return nil, planOut{}, fmt.Errorf("decode plan: %w", err)
		}
	}
	return nil, out, nil
}

type recordIn struct {
	Run string `json:"run" jsonschema:"id of the run"`
}

type recordOut struct {
	Record    map[string]any `json:"record" jsonschema:"in the schema silk.run-record/v1"`
	LeftOut   []string       `json:"left_out,omitempty" jsonschema:"parts of it that are too long; the resource has them"`
	Reference string         `json:"uri" jsonschema:"of the resource with the whole record"`
}

func (s *Server) getRecord(ctx context.Context, _ *sdk.CallToolRequest, in recordIn) (*sdk.CallToolResult, recordOut, error) {
	text, err := s.cfg.Engine.Record(ctx, in.Run)
	if err != nil {
		return nil, recordOut{}, s.public(ctx, err)
	}
	out := recordOut{Reference: recordURI(in.Run)}
	if err := json.Unmarshal(text, &out.Record); err != nil {
		return nil, recordOut{}, fmt.Errorf("decode record: %w", err)
	}
	shorten(out.Record, "", &out.LeftOut)
	return nil, out, nil
}

// shorten cuts what is long in a record, and says what it cut.
func shorten(part map[string]any, at string, cut *[]string) {
	const text = 4 << 10
	for name, v := range part {
		switch v := v.(type) {
		case map[string]any:
			shorten(v, at+name+".", cut)
		case []any:
			if len(v) > listed {
				part[name] = v[:listed]
				*cut = append(*cut, fmt.Sprintf("%s%s: %d of %d", at, name, listed, len(v)))
			}
		case string:
			if len(v) > text {
				part[name] = string(headOf([]byte(v), text))
				*cut = append(*cut, fmt.Sprintf("%s%s: the first %d bytes of %d", at, name, text, len(v)))
			}
		}
	}
	slices.Sort(*cut)
}

package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/api"
)

// Limits on resources.
const (
	maxResource = 8 << 20 // bytes of one
	maxRecent   = 100     // resources of runs in the list
	recentRuns  = 50      // in silk://runs
)

// scheme begins the URI of every resource.
const scheme = "silk://"

func recordURI(run string) string { return scheme + "runs/" + run + "/record" }

func artifactURI(run, name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return scheme + "runs/" + run + "/artifacts/" + strings.Join(parts, "/")
}

// resources adds those that are always there, and says what others look like.
func (s *Server) resources() {
	s.sdk.AddResource(&sdk.Resource{
		URI: scheme + "runs", Name: "runs", Title: "Newest runs", MIMEType: "application/json", Description: "The newest runs, how they stand or ended.",
	}, s.read)
	for _, t := range []sdk.ResourceTemplate{
		{URITemplate: scheme + "runs/{run}/record", Name: "record", Title: "Record of a run", MIMEType: "application/json"},
		{URITemplate: scheme + "runs/{run}/output/{channel}", Name: "output", Title: "What a run printed, as it was kept", MIMEType: "text/plain"},
		{URITemplate: scheme + "runs/{run}/artifacts/{+path}", Name: "artifact", Title: "File that a run made"},
	} {
		s.sdk.AddResourceTemplate(&t, s.read)
	}
	if s.given == nil {
		return
	}
	s.sdk.AddResource(&sdk.Resource{
		URI: scheme + "handoffs", Name: "handoffs", Title: "Newest hand-offs", MIMEType: "application/json", Description: "Runs that did not end well, handed over with code, log and outcome.",
	}, s.read)
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{URITemplate: scheme + "handoffs/{handoff}", Name: "handoff", Title: "A hand-off", MIMEType: "application/json"}, s.read)
}

// keep puts what a run has left into the list of resources, in place of the oldest ones.
func (s *Server) keep(a runAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(r *sdk.Resource) {
		if slices.Contains(s.recent, r.URI) {
			return
		}
		s.sdk.AddResource(r, s.read)
		s.recent = append(s.recent, r.URI)
	}
	add(&sdk.Resource{URI: recordURI(a.Run), Name: "record of run " + a.Run, MIMEType: "application/json", Description: a.headline()})
	for _, art := range a.Artifacts[:min(len(a.Artifacts), 10)] {
		if art.URI != "" {
			add(&sdk.Resource{URI: art.URI, Name: path.Base(art.Path), MIMEType: art.MIME, Size: art.Bytes, Description: "made by run " + a.Run})
		}
	}
	if n := len(s.recent) - maxRecent; n > 0 {
		s.sdk.RemoveResources(s.recent[:n]...)
		s.recent = slices.Delete(s.recent, 0, n)
	}
}

// read answers for every resource.
func (s *Server) read(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	uri := req.Params.URI
	c, err := s.contents(ctx, uri)
	if errors.Is(err, ErrNotFound) {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, s.public(ctx, err)
	}
	c.URI = uri
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{c}}, nil
}

func (s *Server) contents(ctx context.Context, uri string) (*sdk.ResourceContents, error) {
	rest, ok := strings.CutPrefix(uri, scheme)
	if !ok {
		return nil, ErrNotFound
	}
	kind, rest, _ := strings.Cut(rest, "/")
	id, rest, _ := strings.Cut(rest, "/")
	switch {
	case kind == "runs" && id == "" && rest == "":
		list, err := s.cfg.Engine.Runs(ctx, recentRuns)
		return jsonOf(list, err)
	case kind == "handoffs" && s.given != nil && id == "":
		list, err := s.given.Handoffs(ctx, recentRuns)
		return jsonOf(list, err)
	case kind == "handoffs" && s.given != nil && rest == "":
		one, err := s.given.Handoff(ctx, id)
		return jsonOf(one, err)
	case kind != "runs" || id == "":
		return nil, ErrNotFound
	}
	what, name, _ := strings.Cut(rest, "/")
	switch what {
	case "record":
		text, err := s.cfg.Engine.Record(ctx, id)
		return jsonOf(text, err)
	case "output":
		if name != "stdout" && name != "stderr" {
			return nil, ErrNotFound
		}
		r, err := s.cfg.Engine.Output(ctx, id, name)
		return bytesOf(r, err, "text/plain")
	case "artifacts":
		return s.artifactContents(ctx, id, name)
	}
	return nil, ErrNotFound
}

func (s *Server) artifactContents(ctx context.Context, run, escaped string) (*sdk.ResourceContents, error) {
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, ErrNotFound
	}
	r, err := s.cfg.Engine.Look(ctx, run)
	if err != nil {
		return nil, err
	}
	if r.Outcome == nil {
		return nil, &RequestError{"the run has not ended"}
	}
	i := slices.IndexFunc(r.Outcome.Artifacts, func(a api.Artifact) bool { return a.Path == name && a.PathB64 == "" })
	if i < 0 {
		return nil, ErrNotFound
	}
	in, err := s.cfg.Engine.Artifact(ctx, run, name)
	return bytesOf(in, err, r.Outcome.Artifacts[i].MIME)
}

func jsonOf(v any, err error) (*sdk.ResourceContents, error) {
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode resource: %w", err)
	}
	return &sdk.ResourceContents{MIMEType: "application/json", Text: string(text)}, nil
}

// bytesOf reads a resource whole: text as it is if it is text, else base64. It closes r.
func bytesOf(r io.ReadCloser, openErr error, kind string) (*sdk.ResourceContents, error) {
	if openErr != nil {
		return nil, openErr
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, maxResource+1))
	if err != nil {
		return nil, fmt.Errorf("read resource: %w", err)
	}
	if len(data) > maxResource {
		return nil, &RequestError{fmt.Sprintf("it has more than %d bytes; read_output reads parts of it", maxResource)}
	}
	media, _, _ := mime.ParseMediaType(kind)
	if utf8.Valid(data) && (strings.HasPrefix(media, "text/") || media == "application/json") {
		return &sdk.ResourceContents{MIMEType: kind, Text: string(data)}, nil
	}
	return &sdk.ResourceContents{MIMEType: or(kind, "application/octet-stream"), Blob: data}, nil
}

package mcp

import (
	"bytes"
	"context"
	"fmt"
	"image"
	_ "image/gif" // image.DecodeConfig reads them
	_ "image/jpeg"
	_ "image/png"
	"io"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/display"
)

// What is shown of images: models take no larger ones, and clients give up on answers of many megabytes.
const (
	maxImages     = 5
	maxImageBytes = 2 << 20
	maxAllImages  = 4 << 20
	maxPixels     = 8000 // on a side

	maxResults     = 10
	maxResultBytes = 16 << 10
	maxResultRows  = 50
)

// shown is what a run shows: results that are text, and pictures.
func (s *Server) shown(ctx context.Context, o api.Outcome) []sdk.Content {
	return append(s.results(ctx, o), s.images(ctx, o)...)
}

// images are the pictures that a run made, as content, and a sentence for each that is left out.
func (s *Server) images(ctx context.Context, o api.Outcome) (out []sdk.Content) {
	total, shown := int64(0), 0
	for _, a := range o.Artifacts {
		if !picture(a) {
			continue
		}
		why := ""
		switch {
		case shown == maxImages:
			why = fmt.Sprintf("%d images are shown already", maxImages)
		case a.Size > maxImageBytes:
			why = fmt.Sprintf("it has %d bytes, more than %d", a.Size, maxImageBytes)
		case total+a.Size > maxAllImages:
			why = "the images together would be too large"
		default:
			content, err := s.image(ctx, o.Run, a)
			if err == nil {
				out = append(out, &sdk.TextContent{Text: a.Path + ":"}, content)
				total += a.Size
				shown++
				continue
			}
			why = err.Error()
		}
		out = append(out, &sdk.TextContent{Text: fmt.Sprintf("%s is not shown: %s; it is the resource %s", line(a.Path, 200), why, artifactURI(o.Run, a.Path))})
		if len(out) > listed {
			return append(out, &sdk.TextContent{Text: "there are more images; the list of artifacts has them"})
		}
	}
	return out
}

// results are the tables, texts and JSON that a program shows, as text in fences: data, not instructions.
func (s *Server) results(ctx context.Context, o api.Outcome) (out []sdk.Content) {
	total := int64(0)
	for _, a := range o.Artifacts {
		if a.Display != display.Table && a.Display != display.JSON && a.Display != display.Text || len(out) == maxResults || total+a.Size > maxResultBytes {
			continue // the list of artifacts has it
		}
		data, err := s.artifact(ctx, o.Run, a.Path, maxResultBytes)
		if err != nil {
			continue
		}
		total += a.Size
		text, about := clean(data), a.Display
		if g, err := display.ParseTable(data); a.Display == display.Table && err == nil {
			rows := min(len(g.Rows), maxResultRows)
			text, about = strings.Join(g.Markdown(rows, len(g.Columns)), "\n"), fmt.Sprintf("a table, %d of %d rows", rows, g.Total)
		}
		f := fence(text)
		out = append(out, &sdk.TextContent{Text: fmt.Sprintf("%s, %s:\n%s\n%s\n%s", a.Path, about, f, strings.TrimSuffix(text, "\n"), f)})
	}
	return out
}

// picture says whether an artifact is an image that clients show, by its content.
func picture(a api.Artifact) bool {
	return a.Type == "file" && a.Omitted == "" && a.PathB64 == "" && (a.MIME == "image/png" || a.MIME == "image/jpeg" || a.MIME == "image/gif")
}

// image reads one.
func (s *Server) image(ctx context.Context, run string, a api.Artifact) (*sdk.ImageContent, error) {
	data, err := s.artifact(ctx, run, a.Path, maxImageBytes)
	if err != nil {
		return nil, err
	}
	c, kind, err := image.DecodeConfig(bytes.NewReader(data))
	switch {
	case err != nil || "image/"+kind != a.MIME:
		return nil, fmt.Errorf("it is not the image that its first bytes say")
	case c.Width > maxPixels || c.Height > maxPixels || c.Width < 1 || c.Height < 1:
		return nil, fmt.Errorf("it has %d by %d pixels, more than %d on a side", c.Width, c.Height, maxPixels)
	}
	return &sdk.ImageContent{Data: data, MIMEType: a.MIME}, nil
}

// artifact reads an artifact of at most so many bytes.
func (s *Server) artifact(ctx context.Context, run, name string, most int64) ([]byte, error) {
	r, err := s.cfg.Engine.Artifact(ctx, run, name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, most+1))
	if err != nil {
		return nil, fmt.Errorf("read artifact: %w", err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("it has more than %d bytes", most)
	}
	return data, nil
}

package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/workspace"
)

// fetch copies the artifacts of a run into the directory for them. Their names come from a program that nobody trusts, through a
// server: workspace.Collect writes them, by the rules by which it writes those of a run on this host.
func (r *remoteRun) fetch(ctx context.Context, o *run.Outcome) error {
	pr, pw := io.Pipe()
	sent := make(chan error, 1)
	gone := map[string]bool{} // not kept by the server any more
	go func() {
		err := r.send(ctx, pw, o.Artifacts, gone)
		pw.CloseWithError(err)
		sent <- err
	}()
	got, err := workspace.Collect(pr, workspace.Manifest{}, workspace.CollectConfig{Dir: r.io.Artifacts, Ignore: []string{}})
	pr.CloseWithError(errors.Join(err, io.ErrClosedPipe))
	if sendErr := <-sent; sendErr != nil && !errors.Is(sendErr, io.ErrClosedPipe) {
		err = sendErr
	}
	copied := map[string]workspace.Artifact{}
	for _, a := range got.Artifacts {
		copied[a.Path] = a
	}
	for i := range o.Artifacts {
		a := &o.Artifacts[i]
		c, ok := copied[a.Path]
		switch {
		case a.Type == "file" && a.Omitted == "" && strings.ContainsRune(a.Path, 0):
			a.Omitted = "not copied: no file can have its name"
		case a.Type == "file" && a.Omitted == "" && a.PathB64 != "":
			a.Omitted = "not copied: its name is not UTF-8, and a server gives such files to nobody"
		case !wanted(*a):
		case gone[a.Path]:
			a.Omitted = "not copied: the server does not keep it any more"
		case !ok:
			a.Omitted = "not copied"
		case c.Omitted != "":
			a.Omitted = c.Omitted
		case c.SHA256 != a.SHA256:
			a.Omitted = "not copied whole: its hash is another one"
			err = errors.Join(err, fmt.Errorf("get artifact %q: what came is not what the program wrote", a.Path))
		}
	}
	if err != nil {
		return fmt.Errorf("get artifacts: %w", err)
	}
	return nil
}

// wanted says whether a server has the content of an artifact, and this host a name for it.
func wanted(a run.Artifact) bool {
	return a.Type == "file" && a.Omitted == "" && a.PathB64 == "" && !strings.ContainsRune(a.Path, 0)
}

// send writes the artifacts as a tar stream, one after the other as they arrive.
func (r *remoteRun) send(ctx context.Context, w io.Writer, artifacts []run.Artifact, gone map[string]bool) error {
	tw := tar.NewWriter(w)
	for _, a := range artifacts {
		if !wanted(a) {
			continue
		}
		err := r.sendOne(ctx, tw, a)
		var p *api.Problem
		if errors.As(err, &p) && p.Status == http.StatusNotFound {
			gone[a.Path] = true
			continue
		}
		if err != nil {
			return err
		}
	}
	return tw.Close()
}

func (r *remoteRun) sendOne(ctx context.Context, tw *tar.Writer, a run.Artifact) error {
	in, err := r.client.Artifact(ctx, r.id, a.Path, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	h := &tar.Header{Typeflag: tar.TypeReg, Name: a.Path, Size: a.Size, Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	n, err := io.Copy(tw, in)
	if err == nil && n < a.Size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return fmt.Errorf("artifact %q: %w", a.Path, err)
	}
	return nil
}

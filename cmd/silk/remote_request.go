package main

import (
	"archive/tar"
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/profile"
	"github.com/silk-sandbox/silk/workspace"
)

// maxUploads is how many files a server takes with one request.
const maxUploads = 10_000

// knowProfile looks a profile up on the server that this host does not know, so that code gets the language that it has there.
func (r *remoteRun) knowProfile() error {
	if r.flags.profile == "" {
		return nil
	}
	if _, err := r.config.profiles.Lookup(r.flags.profile); err == nil {
		return nil
	}
	list, err := r.client.Profiles(r.app.ctx)
	if err != nil {
		return err
	}
	var known []profile.Profile
	for _, p := range list {
		known = append(known, profile.Profile{
			Name: p.Name, Summary: p.About, Image: p.Image, Language: p.Language, Network: p.Network, Hosts: p.Hosts, Limits: fromLimits(p.Limits), Max: fromLimits(p.Max),
		})
	}
	r.config.profiles = profile.NewSet(known...)
	return nil
}

// readable finds what makes no sense in a request whoever decides about it, in the words of this host's command line and before
// anything is sent. What is allowed the server decides.
func (r *remoteRun) readable() error {
	prof, err := r.config.profiles.Lookup(policy.ProfileFor(r.req))
	if err != nil {
		return err
	}
	var unread *policy.RequestError
	if _, err := policy.Decide(r.req, prof, policy.Grants{}); errors.As(err, &unread) {
		return unread
	}
	return nil
}

// requestFor is a request as a server takes it. What lies in files of this host goes along.
func requestFor(req policy.Request, f *runFlags, size *api.Size) (api.RunRequest, error) {
	out := api.RunRequest{
		Profile: req.Profile, Language: req.Language, Args: req.Args, Env: req.Env, StdinOpen: req.HasStdin && size == nil, Terminal: size,
		Limits: toLimits(req.Limits), Network: req.Network, Hosts: req.Hosts, Secrets: req.Secrets, NoSpawn: req.NoSpawn, Deterministic: req.Deterministic,
		Isolation: req.Isolation, RequireWatch: req.RequireWatch, Driver: req.Driver,
	}
	src := workspace.Source{Dir: req.Dir, Files: req.Files}
	if req.Code != nil {
		out.Name = req.Code.Name
		if req.Code.Bytes != nil {
			setCode(&out, req.Code.Bytes)
			src.Code = &workspace.File{Name: req.Code.Name, Bytes: req.Code.Bytes}
		}
	}
	if src.Dir == "" && len(src.Files) == 0 {
		return out, nil
	}
	if err := upload(&out, src, req.Code); err != nil {
		return out, uploadError(err, f)
	}
	if len(out.Files) > maxUploads {
		return out, usagef("there are more than %d files, which is what a server takes with one run; name a smaller directory", maxUploads)
	}
	return out, nil
}

func setCode(out *api.RunRequest, code []byte) {
	if utf8.Valid(code) {
		text := string(code)
		out.Code = &text
		return
	}
	text := base64.StdEncoding.EncodeToString(code)
	out.CodeB64 = &text
}

// upload puts the files of src into a request. They are read by the rules by which a workspace of this host is filled: links are
// kept and not followed, fifos and the like are left out, a file that changes meanwhile is an error.
func upload(out *api.RunRequest, src workspace.Source, code *policy.Code) error {
	r, w := io.Pipe()
	filled := make(chan error, 1)
	go func() {
		_, err := workspace.Fill(w, src, workspace.FillLimits{Bytes: client.MaxRequestBytes})
		w.CloseWithError(err)
		filled <- err
	}()
	err := unpack(out, tar.NewReader(r), code)
	r.CloseWithError(err)
	out.Files = withoutImplied(out.Files)
	if fillErr := <-filled; fillErr != nil && !errors.Is(fillErr, err) {
		err = fillErr
	}
	return err
}

// plainDir are the permissions of directories that need not be named.
const plainDir = 0o755

// withoutImplied leaves out the directories that a server makes by itself for the files in them.
func withoutImplied(files []api.File) []api.File {
	leads := map[string]bool{}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "." && !leads[dir]; dir = path.Dir(dir) {
			leads[dir] = true
		}
	}
	return slices.DeleteFunc(files, func(f api.File) bool { return f.Directory && f.Mode == 0 && leads[f.Path] })
}

// nameError says that there is something that the API has no word for.
type nameError struct{ path string }

func (e *nameError) Error() string { return fmt.Sprintf("the name %q is not UTF-8", e.path) }

func unpack(out *api.RunRequest, tr *tar.Reader, code *policy.Code) error {
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if !utf8.ValidString(h.Name) || !utf8.ValidString(h.Linkname) {
			return &nameError{h.Name}
		}
		if code != nil && code.Bytes != nil && h.Name == code.Name {
			continue // is in the request already
		}
		var content bytes.Buffer
		if _, err := io.Copy(&content, tr); err != nil {
			return err
		}
		if code != nil && h.Name == code.Name {
			setCode(out, content.Bytes())
			continue
		}
		out.Files = append(out.Files, fileFor(h, content.Bytes()))
	}
}

func fileFor(h *tar.Header, content []byte) api.File {
	f := api.File{Path: strings.TrimSuffix(h.Name, "/")}
	switch perm := int(h.Mode & 0o777); {
	case h.Typeflag == tar.TypeSymlink:
		f.Link = &h.Linkname
		return f
	case h.Typeflag == tar.TypeDir:
		if f.Directory = true; perm != plainDir {
			f.Mode = perm
		}
		return f
	case perm == 0o755:
		f.Executable = true
	case perm != 0o644:
		f.Mode = perm
	}
	if utf8.Valid(content) {
		text := string(content)
		f.Text = &text
	} else {
		text := base64.StdEncoding.EncodeToString(content)
		f.B64 = &text
	}
	return f
}

// uploadError says what is wrong with files for a server in the words of the flag that brought them.
func uploadError(err error, f *runFlags) error {
	from := "--file " + strings.Join(f.files, ", --file ")
	if f.dir != "" {
		from = "--dir " + f.dir
	}
	var limit *workspace.LimitError
	var name *nameError
	switch {
	case errors.As(err, &limit) && limit.What == "bytes":
		return tooLarge(from)
	case errors.As(err, &name):
		return usagef("%s: %v, and cannot be sent to a server; leave it out, or give it another name", from, err)
	case errors.As(err, new(*workspace.ConflictError)), limit != nil:
		return usagef("%v", err)
	}
	return err
}

func tooLarge(what string) error {
	return usagef("%s: more than the %s that a server takes with one run, everything included; name a smaller directory", what, profile.FormatBytes(client.MaxRequestBytes))
}

func toLimits(l profile.Limits) api.Limits {
	return api.Limits{
		TimeoutMs: l.Timeout.Milliseconds(), MemoryBytes: l.MemoryBytes, CPUs: l.CPUs, Processes: l.Processes,
		WorkspaceBytes: l.WorkspaceBytes, TmpBytes: l.TmpBytes, ShmBytes: l.ShmBytes, OutputBytes: l.OutputBytes,
	}
}

func encodeBase64(p []byte) string { return base64.StdEncoding.EncodeToString(p) }

package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
	"github.com/silk-sandbox/silk/note"
	"github.com/silk-sandbox/silk/serve"
)

// maxNoteBody is that of a request with a note, twice for its earlier version, in JSON.
const maxNoteBody = 4 * note.MaxBytes

// errOtherCode says that a run was not one of the block's code, so that its result is none of the block's.
var errOtherCode = errors.New("the run was one of other code than the block has")

type noteIn struct{ Body api.NoteRequest }

type blocksOut struct{ Body api.NoteBlocks }

type resultIn struct{ Body api.NoteResultRequest }

type cleanIn struct{ Body api.NoteCleanRequest }

type textOut struct{ Body api.NoteText }

// notes are the operations on the text of notes. They change nothing on the server: the client has the note.
func (h *handler) notes() {
	operation(h, huma.Operation{
		OperationID: "list-note-blocks", Method: http.MethodPost, Path: "/v1/notes/blocks", Summary: "Find the blocks of code in a note", Tags: []string{"notes"},
		Description: "Every fenced block of code in Markdown text, those that cannot be run with the reason.", MaxBodyBytes: maxNoteBody,
	}, func(_ context.Context, id auth.Identity, in *noteIn) (*blocksOut, error) {
		if !id.Can(auth.ActView) {
			return nil, auth.ErrForbidden
		}
		if err := fits(in.Body.Text); err != nil {
			return nil, err
		}
		n := note.Parse([]byte(in.Body.Text))
		out := api.NoteBlocks{Blocks: make([]api.NoteBlock, len(n.Blocks)), Fault: n.Fault}
		for i := range n.Blocks {
			out.Blocks[i] = noteBlock(&n.Blocks[i])
		}
		return &blocksOut{out}, nil
	})
	operation(h, huma.Operation{
		OperationID: "put-note-result", Method: http.MethodPost, Path: "/v1/notes/result", Summary: "Put the result of a run into a note", Tags: []string{"notes"},
		Description:  "It returns the note with the result under the block that was run, in place of an earlier one. Write it only if the note is still what was sent; else ask again.",
		MaxBodyBytes: maxNoteBody, Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, id auth.Identity, in *resultIn) (*textOut, error) {
		out, err := h.noteResult(ctx, id, in.Body)
		return &textOut{out}, err
	})
	operation(h, huma.Operation{
		OperationID: "clean-note", Method: http.MethodPost, Path: "/v1/notes/clean", Summary: "Take a result out of a note", Tags: []string{"notes"},
		Description:  "It returns the note without the result under a block, or as it is if there is none. Write it only if the note is still what was sent; else ask again.",
		MaxBodyBytes: maxNoteBody, Errors: []int{http.StatusConflict},
	}, func(_ context.Context, id auth.Identity, in *cleanIn) (*textOut, error) {
		if !id.Can(auth.ActView) {
			return nil, auth.ErrForbidden
		}
		if err := fits(in.Body.Text); err != nil {
			return nil, err
		}
		n := note.Parse([]byte(in.Body.Text))
		i, err := note.Locate(nil, n, in.Body.Line, in.Body.CodeHash)
		if err != nil {
			return nil, err
		}
		return &textOut{noteText(&n.Blocks[i], n.Clear(i), nil)}, nil
	})
}

// fits refuses a note that is not looked at for its size.
func fits(text string) error {
	if len(text) <= note.MaxBytes {
		return nil
	}
	return problem(http.StatusRequestEntityTooLarge, "note-too-large", "the note is too large", fmt.Sprintf("it has %d bytes, and a note %d at most", len(text), note.MaxBytes))
}

// noteText is the answer with the new text of a note, whose block b was changed.
func noteText(b *note.Block, text []byte, images []note.Image) api.NoteText {
	out := api.NoteText{Text: string(text), Line: b.Line, Images: []api.NoteImage{}, Unused: []string{}}
	for _, img := range images {
		out.Images = append(out.Images, api.NoteImage{Artifact: img.Artifact, Path: img.Path})
	}
	if b.Result == nil {
		return out
	}
	for _, at := range b.Result.Images {
		if !bytes.Contains(text, []byte(at)) && !bytes.Contains(text, []byte("[["+path.Base(at))) { // the short form of a link
			out.Unused = append(out.Unused, at)
		}
	}
	return out
}

func noteBlock(b *note.Block) api.NoteBlock {
	out := api.NoteBlock{
		Line: b.Line, EndLine: b.EndLine, Language: b.Language, Profile: b.Profile, Attributes: b.Attributes,
		Runnable: b.Runnable, Reason: b.Reason, Code: b.Code, CodeHash: b.CodeHash,
	}
	if b.Result != nil {
		out.Result = &api.NoteResult{Line: b.Result.Line, EndLine: b.Result.EndLine, Run: b.Result.Run}
	}
	if b.Runnable {
		s := b.Settings()
		out.Request = &api.RunRequest{
			Client: "note", Profile: s.Profile, Language: b.Language, Code: &b.Code, Args: s.Args, Network: s.Network, Hosts: s.Hosts,
			NoSpawn: s.NoSpawn, Deterministic: s.Deterministic, Driver: s.Driver, Isolation: s.Isolation,
			Limits: api.Limits{
				TimeoutMs: s.Limits.Timeout.Milliseconds(), MemoryBytes: s.Limits.MemoryBytes, CPUs: s.Limits.CPUs,
				Processes: s.Limits.Processes, WorkspaceBytes: s.Limits.WorkspaceBytes,
			},
		}
	}
	return out
}

func (h *handler) noteResult(ctx context.Context, id auth.Identity, in api.NoteResultRequest) (api.NoteText, error) {
	if in.Attachments != "" {
		if err := note.CheckFolder(in.Attachments); err != nil {
			return api.NoteText{}, &serve.InvalidError{Faults: []serve.Fault{{Field: "body.attachments", Detail: err.Error()}}}
		}
	}
	if err := fits(in.Text); err != nil {
		return api.NoteText{}, err
	}
	if in.Before != nil {
		if err := fits(*in.Before); err != nil {
			return api.NoteText{}, err
		}
	}
	r, err := h.cfg.Server.Run(ctx, id, in.Run)
	if err != nil {
		return api.NoteText{}, err
	}
	if r.Outcome == nil {
		return api.NoteText{}, serve.ErrState
	}
	var before *note.Note
	if in.Before != nil {
		before = note.Parse([]byte(*in.Before))
	}
	n := note.Parse([]byte(in.Text))
	i, err := note.Locate(before, n, in.Line, in.CodeHash)
	if err != nil {
		return api.NoteText{}, err
	}
	entry, err := h.cfg.Server.Record(ctx, id, in.Run)
	if err != nil {
		return api.NoteText{}, err
	}
	code := sha256.Sum256([]byte(n.Blocks[i].Code))
	if ran := entry.Record.Input.CodeSHA256; ran != hex.EncodeToString(code[:]) && (ran != "" || started(r.Outcome.Kind)) {
		return api.NoteText{}, errOtherCode
	}
	result, err := h.resultOf(ctx, id, r)
	if err != nil {
		return api.NoteText{}, err
	}
	if in.Attachments != "" {
		result.Images = note.Images(in.Attachments, r.ID, pictures(*r.Outcome))
	}
	list, notes, err := h.cfg.Server.HandoffsOf(ctx, id, in.Run)
	if err != nil {
		return api.NoteText{}, err
	}
	for i, handed := range list {
		result.Handoffs = append(result.Handoffs, note.Handoff{Receiver: handed.Receiver, Note: notes[i]})
	}
	return noteText(&n.Blocks[i], n.Put(i, result), result.Images), nil
}

// started says whether a run with this outcome has begun for sure, and its record has its code.
func started(outcome string) bool {
	switch outcome {
	case "denied", "error", "canceled":
		return false
	}
	return true
}

// resultOf is what a note shows of a run that has ended.
func (h *handler) resultOf(ctx context.Context, id auth.Identity, r api.Run) (*note.Result, error) {
	o := *r.Outcome
	result := &note.Result{
		Run: r.ID, Outcome: o.Kind, Reason: o.Reason, Phase: o.Phase, Message: o.Message, ExitCode: o.ExitCode, Signal: o.Signal,
		Wall: time.Duration(o.WallMs) * time.Millisecond, Rule: o.Rule, Syscall: o.Syscall, Argument: o.Argument, Flags: o.Flags,
		Stdout: note.Channel{Bytes: o.Stdout.Bytes, Truncated: o.Stdout.Truncated},
		Stderr: note.Channel{Bytes: o.Stderr.Bytes, Truncated: o.Stderr.Truncated},
	}
	for _, d := range o.Egress {
		if !d.Allowed {
			result.Kept = append(result.Kept, note.Destination{Host: d.Host, Port: d.Port})
		}
	}
	var err error
	if result.Stdout.Kept, err = h.kept(ctx, id, r.ID, "stdout"); err != nil {
		return nil, err
	}
	if result.Stderr.Kept, err = h.kept(ctx, id, r.ID, "stderr"); err != nil {
		return nil, err
	}
	result.Results = note.Results(pictures(o), func(path string) ([]byte, error) {
		f, _, err := h.cfg.Server.Artifact(ctx, id, r.ID, path)
		if err != nil {
			return nil, err
		}
		defer f.Close() // it was only read
		return io.ReadAll(f)
	})
	return result, nil
}

func (h *handler) kept(ctx context.Context, id auth.Identity, run, channel string) (_ []byte, err error) {
	out, err := h.cfg.Server.Output(ctx, id, run, channel)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	return io.ReadAll(out)
}

// pictures are the artifacts of a run that can be had.
func pictures(o api.Outcome) (list []note.Artifact) {
	for _, a := range o.Artifacts {
		if a.Type == "file" && a.Omitted == "" && a.PathB64 == "" {
			list = append(list, note.Artifact{Path: a.Path, MIME: a.MIME, Display: a.Display, Bytes: a.Size})
		}
	}
	return list
}

// Command gocache is the go command's build cache in an image (GOCACHEPROG, `go help cacheprog`). What the image brings,
// the compiled standard library, is read where it lies; what a run compiles is kept in $GOCACHE as long as the run lasts.
//
// An image's own Go compiles it when the image is built, from this file alone: standard library only, Go 1.24.
package main

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	c, err := openCache("/usr/lib/silk/gocache", os.Getenv("GOCACHE"))
	if err == nil {
		err = c.serve(os.Stdin, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gocache:", err)
		os.Exit(1)
	}
}

// request and response are the messages of cmd/go/internal/cacheprog. The body of a put follows it, as a string in base64.
type request struct {
	ID       int64
	Command  string
	ActionID []byte
	OutputID []byte
	BodySize int64
}

type response struct {
	ID            int64
	Err           string     `json:",omitempty"`
	KnownCommands []string   `json:",omitempty"`
	Miss          bool       `json:",omitempty"`
	OutputID      []byte     `json:",omitempty"`
	Size          int64      `json:",omitempty"`
	Time          *time.Time `json:",omitempty"`
	DiskPath      string     `json:",omitempty"`
}

// cache is two directories with the same layout: a file ID-d for each output, and a link ID-a to it for each action.
type cache struct{ image, own string }

func openCache(image, own string) (cache, error) {
	if own == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return cache{}, err
		}
		own = filepath.Join(user, "go-build") // as the go command has it
	}
	own = filepath.Join(own, "silk") // beside the go command's own files
	return cache{image, own}, os.MkdirAll(own, 0o777)
}

// serve answers requests, one after the other, until it is told to close or the go command is gone.
func (c cache) serve(r io.Reader, w io.Writer) error {
	in, out := json.NewDecoder(r), json.NewEncoder(w)
	if err := out.Encode(response{KnownCommands: []string{"get", "put", "close"}}); err != nil {
		return err
	}
	for {
		var req request
		err := in.Decode(&req)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var body []byte
		if err == nil && req.BodySize > 0 {
			err = in.Decode(&body)
		}
		if err != nil {
			return fmt.Errorf("read request: %w", err)
		}
		res, err := c.answer(req, body)
		if err != nil {
			res.Err = err.Error()
		}
		res.ID = req.ID
		if err := out.Encode(res); err != nil {
			return err
		}
		if req.Command == "close" {
			return nil
		}
	}
}

func (c cache) answer(req request, body []byte) (response, error) {
	switch req.Command {
	case "get":
		res, err := get(c.own, req.ActionID)
		if errors.Is(err, fs.ErrNotExist) {
			res, err = get(c.image, req.ActionID)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return response{Miss: true}, nil
		}
		return res, err
	case "put":
		return c.put(req.ActionID, req.OutputID, body)
	case "close":
		return response{}, nil
	default:
		return response{}, fmt.Errorf("unknown command %q", req.Command)
	}
}

// get finds the output of an action. Its time is when the action ended: go clean -testcache goes by it.
func get(dir string, action []byte) (response, error) {
	link := filepath.Join(dir, hex.EncodeToString(action)+"-a")
	made, err := os.Lstat(link)
	if err != nil {
		return response{}, err
	}
	name, err := os.Readlink(link)
	if err != nil {
		return response{}, err
	}
	output, err := hex.DecodeString(strings.TrimSuffix(name, "-d"))
	if err != nil {
		return response{}, fmt.Errorf("link %s: %w", link, err)
	}
	path := filepath.Join(dir, name)
	data, err := os.Stat(path)
	if err != nil {
		return response{}, err
	}
	when := made.ModTime()
	return response{OutputID: output, Size: data.Size(), Time: &when, DiskPath: path}, nil
}

// put keeps an output and makes the action lead to it. Both appear whole: other go commands may use the cache meanwhile.
func (c cache) put(action, output, body []byte) (response, error) {
	name := hex.EncodeToString(output) + "-d"
	path := filepath.Join(c.own, name)
	temp, err := os.MkdirTemp(c.own, "put-")
	if err != nil {
		return response{}, err
	}
	defer os.RemoveAll(temp)
	file, link := filepath.Join(temp, "file"), filepath.Join(temp, "link")
	err = errors.Join(os.WriteFile(file, body, 0o666), os.Symlink(name, link)) //nolint:forbidigo // renamed below
	if err == nil {
		err = os.Rename(file, path)
	}
	if err == nil {
		err = os.Rename(link, filepath.Join(c.own, hex.EncodeToString(action)+"-a"))
	}
	return response{DiskPath: path}, err
}

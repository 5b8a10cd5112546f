package recipe

import (
	"archive/tar"
	_ "embed"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/silk-sandbox/silk/image"
)

// goScript compiles the standard library into Go's cache, as go build, go vet and go test want it, with cgo and without,
// and then the program in $1, which serves that cache in a run. No time may get into the cache: files have a fixed one,
// which is a part of the key of what go notes of them, and no test is run, whose result has the time that it took.
const goScript = `set -e
mkdir tmp warm
cd warm
printf 'module warm\ngo 1.24\n' >go.mod
{ echo 'package warm'; go list -f 'import _ "{{.ImportPath}}"' std | grep -vE '(internal|vendor|cgo)[/"]'; } >warm.go
echo 'package warm' >warm_test.go
touch -d @0 *
for CGO_ENABLED in 1 0; do
	export CGO_ENABLED
	go vet
	go test -c -o /dev/null
done
printf %s "$1" >../gocache.go
go build -ldflags '-s -w' -o ../gocacheprog ../gocache.go
`

//go:embed cmd/gocache/main.go
var gocacheSource string

// Where the cache and the program that serves it are in an image, relative to the root. cmd/gocache knows the first too.
const (
	goCacheInImage = "usr/lib/silk/gocache/"
	goProgInImage  = "usr/lib/silk/gocacheprog"
)

// goLibrary compiles Go's standard library in t; ok is false if there is no Go in it.
func goLibrary(t *image.Tree) (c compilation, ok bool) {
	command, ok := t.Stat("usr/bin/go")
	if !ok {
		return compilation{}, false
	}
	job := CompileJob{
		Args: []string{"/bin/bash", "-c", goScript, "bash", gocacheSource},
		Env: []string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/workspace", "LANG=C.UTF-8", "XDG_CONFIG_HOME=/tmp",
			"GOCACHE=/workspace/cache", "GOTMPDIR=/workspace/tmp", "GOTOOLCHAIN=local", "GOPROXY=off", "GOFLAGS=-buildvcs=false",
		},
		WorkspaceBytes: 1 << 30, // Go 1.24: 180 MB, and as much again while it works
		MemoryBytes:    2 << 30,
	}
	config := path.Join(path.Dir(command.Path), "../go.env") // the go command's own, in GOROOT
	return compilation{"Go's standard library", job, func(t *image.Tree, workspace io.Reader) error {
		if err := addGoCache(t, workspace); err != nil {
			return err
		}
		return appendTo(t, config, "\n# The compiled standard library comes with the image.\nGOCACHEPROG=/"+goProgInImage+"\n")
	}}, true
}

// goCacheForms match names and contents of the files in Go's cache: the output of an action, by its hash, and which one it is,
// with its size and the time at which it was made (cmd/go/internal/cache).
var goCacheForms = sync.OnceValue(func() (f struct{ output, action, entry *regexp.Regexp }) { // not in each start of silk
	f.output = regexp.MustCompile(`^cache/[0-9a-f]{2}/([0-9a-f]{64})-d$`)
	f.action = regexp.MustCompile(`^cache/[0-9a-f]{2}/([0-9a-f]{64})-a$`)
	f.entry = regexp.MustCompile(`^v1 ([0-9a-f]{64}) ([0-9a-f]{64}) +[0-9]+ +[0-9]+\n$`)
	return f
})

// maxGoBytes bounds one file of the cache: the largest, the runtime's, is below 16 MB in Go 1.24.
const maxGoBytes = 256 << 20

// addGoCache adds the cache and the program that serves it to t. A file in the image stands for each output, and a link to
// it for each action: no times, so that the same Go makes the same image.
func addGoCache(t *image.Tree, workspace io.Reader) error {
	outputs := map[string]string{} // by action
	err := eachEntry(workspace, func(h *tar.Header, r io.Reader) error {
		name := strings.TrimPrefix(h.Name, "./")
		output, action := goCacheForms().output.FindStringSubmatch(name), goCacheForms().action.FindStringSubmatch(name)
		if output == nil && action == nil && name != "gocacheprog" {
			return nil
		}
		if h.Typeflag != tar.TypeReg || h.Size > maxGoBytes {
			return &image.RefusedError{Entry: h.Name, Err: errors.New("is no file of Go's cache")}
		}
		switch {
		case output != nil:
			return addGoOutput(t, output[1], h, r)
		case action != nil:
			text, err := io.ReadAll(r)
			if err != nil {
				return err
			}
			entry := goCacheForms().entry.FindSubmatch(text)
			if entry == nil || string(entry[1]) != action[1] {
				return &image.RefusedError{Entry: h.Name, Err: errors.New("does not say what its output is")}
			}
			outputs[action[1]] = string(entry[2])
			return nil
		default:
			return t.AddFile(goProgInImage, 0o755, t.Epoch(), r)
		}
	})
	if err != nil {
		return err
	}
	if _, ok := t.Lookup(goProgInImage); !ok || len(outputs) == 0 {
		return errors.New("go compiled nothing")
	}
	for action, output := range outputs {
		if _, ok := t.Lookup(goCacheInImage + output + "-d"); !ok {
			return &image.RefusedError{Entry: action, Err: errors.New("has an output that is not in Go's cache")}
		}
		if err := t.AddSymlink(goCacheInImage+action+"-a", output+"-d"); err != nil {
			return err
		}
	}
	return nil
}

// addGoOutput adds an output, whose name is the hash of its content.
func addGoOutput(t *image.Tree, sum string, h *tar.Header, r io.Reader) error {
	name := goCacheInImage + sum + "-d"
	if err := t.AddFile(name, 0o644, t.Epoch(), r); err != nil {
		return err
	}
	if e, _ := t.Lookup(name); hex.EncodeToString(e.SHA256[:]) != sum {
		return &image.RefusedError{Entry: h.Name, Err: errors.New("is not what its name says")}
	}
	return nil
}

// appendTo adds text to the end of a file in t.
func appendTo(t *image.Tree, name, text string) error {
	old, err := t.Open(name)
	if err != nil {
		return err
	}
	return t.AddFile(name, 0o644, t.Epoch(), io.MultiReader(old, strings.NewReader(text)))
}

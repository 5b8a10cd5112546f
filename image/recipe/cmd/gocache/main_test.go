package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func id(text string) []byte {
	sum := sha256.Sum256([]byte(text))
	return sum[:]
}

// session sends requests to a cache as the go command does, each with its body behind it, and returns the answers after
// the greeting.
func session(t *testing.T, c cache, requests ...any) []response {
	t.Helper()
	var in, out bytes.Buffer
	for _, r := range requests {
		if err := json.NewEncoder(&in).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.serve(&in, &out); err != nil {
		t.Fatal(err)
	}
	var all []response
	for dec := json.NewDecoder(&out); ; {
		var r response
		err := dec.Decode(&r)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
	}
	if len(all) == 0 || all[0].ID != 0 || len(all[0].KnownCommands) != 3 {
		t.Fatalf("greeting = %+v", all)
	}
	return all[1:]
}

func newCache(t *testing.T) cache {
	t.Helper()
	c, err := openCache(t.TempDir(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// bring puts an output into the image's part of c, as the recipe lays it out.
func bring(t *testing.T, c cache, action, output string) {
	t.Helper()
	name := hex.EncodeToString(id(output)) + "-d"
	link := filepath.Join(c.image, hex.EncodeToString(id(action))+"-a")
	if err := errors.Join(os.WriteFile(filepath.Join(c.image, name), []byte(output), 0o444), os.Symlink(name, link)); err != nil {
		t.Fatal(err)
	}
}

func TestServe(t *testing.T) {
	c := newCache(t)
	bring(t, c, "compile fmt", "package fmt")
	bring(t, c, "test x", "ok x 1s")
	put := func(number int64, action, output string) request {
		return request{ID: number, Command: "put", ActionID: id(action), OutputID: id(output), BodySize: int64(len(output))}
	}
	get := func(number int64, action string) request {
		return request{ID: number, Command: "get", ActionID: id(action)}
	}
	answers := session(
		t, c,
		get(1, "compile fmt"), get(2, "compile main"),
		put(3, "compile main", "package main"), []byte("package main"), get(4, "compile main"),
		put(5, "test x", "ok x 2s"), []byte("ok x 2s"), get(6, "test x"),
		put(7, "vet x", ""), get(8, "vet x"),
		request{ID: 9, Command: "sing"}, request{ID: 10, Command: "close"}, get(11, "compile fmt"),
	)
	if len(answers) != 10 {
		t.Fatalf("%d answers: %+v", len(answers), answers)
	}
	for i, want := range []struct {
		dir, output string // of the file that is named; "" for none
		miss, err   bool
	}{
		{dir: c.image, output: "package fmt"},
		{miss: true},
		{dir: c.own, output: "package main"},
		{dir: c.own, output: "package main"},
		{dir: c.own, output: "ok x 2s"},
		{dir: c.own, output: "ok x 2s"}, // what the run made counts, not what the image brought
		{dir: c.own},
		{dir: c.own},
		{err: true},
		{},
	} {
		got := answers[i]
		if got.ID != int64(i+1) || got.Miss != want.miss || (got.Err != "") != want.err || (got.DiskPath != "") != (want.dir != "") {
			t.Errorf("answer %d = %+v, want %+v", i+1, got, want)
		}
		if want.dir == "" {
			continue
		}
		data, err := os.ReadFile(got.DiskPath)
		if err != nil || string(data) != want.output || filepath.Dir(got.DiskPath) != want.dir {
			t.Errorf("answer %d names %s: %q, %v", i+1, got.DiskPath, data, err)
		}
		if got.OutputID == nil { // of a put
			continue
		}
		if !bytes.Equal(got.OutputID, id(want.output)) || got.Size != int64(len(want.output)) || got.Time == nil || time.Since(*got.Time) > time.Hour {
			t.Errorf("answer %d = %+v", i+1, got)
		}
	}
	left, err := filepath.Glob(filepath.Join(c.own, "put-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestServeWithoutClose(t *testing.T) {
	if answers := session(t, newCache(t), request{ID: 1, Command: "get", ActionID: id("x")}); len(answers) != 1 || !answers[0].Miss {
		t.Errorf("answers = %+v", answers)
	}
}

func TestServeRefusesWhatIsNoRequest(t *testing.T) {
	for _, text := range []string{"{", `{"ID":1,"Command":"put","BodySize":3}` + "\n7\n", "get"} {
		if err := newCache(t).serve(bytes.NewBufferString(text), io.Discard); err == nil {
			t.Errorf("%q is served", text)
		}
	}
}

func TestOwnCacheWithoutGOCACHE(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	c, err := openCache("/image", "")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.UserCacheDir()
	if want := filepath.Join(dir, "go-build", "silk"); err != nil || c.own != want {
		t.Errorf("own = %s, want %s, %v", c.own, want, err)
	}
}

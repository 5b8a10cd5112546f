package recipe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
)

func publishGo(t *testing.T, a *archive) []Package {
	t.Helper()
	return []Package{a.publish("golang", "1", debOf("", tarOf(t,
		entry{name: "./usr/lib/go-1.24/bin/go", data: "elf", mode: 0o755},
		entry{name: "./usr/lib/go-1.24/go.env", data: "GOPROXY=off\n"},
		entry{name: "./usr/bin/go", kind: '2', link: "../lib/go-1.24/bin/go"},
	)))}
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// output and action are entries of Go's cache as the go command writes them.
func output(text string) entry {
	sum := hashOf(text)
	return entry{name: "./cache/" + sum[:2] + "/" + sum + "-d", data: text}
}

func action(name, output string, second int) entry {
	sum := hashOf(name)
	line := fmt.Sprintf("v1 %s %s %20d %20d\n", sum, hashOf(output), len(output), 1_700_000_000_000_000_000+second)
	return entry{name: "./cache/" + sum[:2] + "/" + sum + "-a", data: line}
}

func TestGoLibrary(t *testing.T) {
	a := newArchive(t)
	config := testConfig(t, a)
	packages := publishGo(t, a)
	var digests []string
	for second := range 2 { // the same Go at another time, which lists its files in another order
		entries := []entry{
			{name: "./gocacheprog", data: "program", mode: 0o700},
			{name: "./cache/README", data: "This directory holds cached build artifacts"},
			{name: "./cache/trim.txt", data: fmt.Sprint(second)},
			{name: "./warm/warm.go", data: "package warm"},
			output("package fmt"), action("compile fmt", "package fmt", second), action("compile fmt again", "package fmt", second),
			output("facts"), action("vet fmt", "facts", second),
		}
		if second == 1 {
			slices.Reverse(entries)
		}
		config.Compile = func(ctx context.Context, root *os.File, job CompileJob, read func(io.Reader) error) error {
			if !slices.Contains(job.Args, gocacheSource) || !slices.Contains(job.Env, "GOCACHE=/workspace/cache") {
				t.Errorf("job = %q %q", job.Args, job.Env)
			}
			return compiling(t, entries...)(ctx, root, job, read)
		}
		img, err := Build(t.Context(), Recipe{Name: "lab:go"}, testLock(packages...), config)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, img.Digest.String())
		tree := load(t, config.Store, img)
		const dir = "/usr/lib/silk/gocache/"
		for name, want := range map[string]string{
			"/usr/lib/silk/gocacheprog":              "file 755 program",
			"/usr/lib/go-1.24/go.env":                "file 644 GOPROXY=off\n\n# The compiled standard library comes with the image.\nGOCACHEPROG=/usr/lib/silk/gocacheprog\n",
			dir + hashOf("package fmt") + "-d":       "file 644 package fmt",
			dir + hashOf("facts") + "-d":             "file 644 facts",
			dir + hashOf("compile fmt") + "-a":       "link " + hashOf("package fmt") + "-d",
			dir + hashOf("compile fmt again") + "-a": "link " + hashOf("package fmt") + "-d",
			dir + hashOf("vet fmt") + "-a":           "link " + hashOf("facts") + "-d",
			dir + "README":                           "absent",
			dir + "trim.txt":                         "absent",
		} {
			if got := describe(t, tree, name); got != want {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	}
	if digests[0] != digests[1] {
		t.Errorf("two builds, two images: %s", digests)
	}
}

func TestGoLibraryRefuses(t *testing.T) {
	program := entry{name: "gocacheprog", data: "x"}
	fmtOutput, fmtAction := output("package fmt"), action("compile fmt", "package fmt", 0)
	changed := fmtOutput
	changed.data = "package evil"
	link := fmtOutput
	link.kind, link.data, link.link = '2', "", "/etc/shadow"
	misnamed := fmtAction
	misnamed.data = action("compile os", "package fmt", 0).data
	garbled := fmtAction
	garbled.data = "v2\n"
	for _, tt := range []struct {
		name    string
		entries []entry
		want    string
	}{
		{"nothing", nil, "compiled nothing"},
		{"no program", []entry{fmtOutput, fmtAction}, "compiled nothing"},
		{"no cache", []entry{program}, "compiled nothing"},
		{"an action without its output", []entry{program, fmtAction}, "not in Go's cache"},
		{"an output that is not what its name says", []entry{program, changed, fmtAction}, "not what its name says"},
		{"an action under another name", []entry{program, fmtOutput, misnamed}, "does not say what its output is"},
		{"an action in another format", []entry{program, fmtOutput, garbled}, "does not say what its output is"},
		{"a link", []entry{program, link, fmtAction}, "no file of Go's cache"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := newArchive(t)
			config := testConfig(t, a)
			config.Compile = compiling(t, tt.entries...)
			_, err := Build(t.Context(), Recipe{Name: "lab:go"}, testLock(publishGo(t, a)...), config)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q in it", err, tt.want)
			}
		})
	}
}

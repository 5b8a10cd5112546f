package workspace_test

import (
	"archive/tar"
	"bytes"
	"fmt"

	"github.com/silk-sandbox/silk/workspace"
)

// A workspace with one program goes in; what comes back has one file more.
func Example() {
	var stream bytes.Buffer
	before, err := workspace.Fill(&stream, workspace.Source{
		Code: &workspace.File{Name: "main.py", Bytes: []byte("open('out.txt', 'w').write('hello')\n")},
	}, workspace.FillLimits{})
	if err != nil {
		fmt.Println(err)
		return
	}

	// The sandbox runs here, and its driver sends what is left:
	var result bytes.Buffer
	w := tar.NewWriter(&result)
	for name, content := range map[string]string{"out.txt": "hello"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Fprint(w, content)
	}
	if err := w.Close(); err != nil {
		fmt.Println(err)
		return
	}

	got, err := workspace.Collect(&result, before, workspace.CollectConfig{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range got.Artifacts {
		fmt.Println(a.Path, a.Size, a.MIME)
	}
	// Output: out.txt 5 text/plain; charset=utf-8
}

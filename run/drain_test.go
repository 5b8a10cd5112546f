package run

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/silk-sandbox/silk/workspace"
)

// A driver reads the final workspace from the moment the sandbox starts, which is before the first one is written. An
// input file that comes back unchanged is no artifact nevertheless.
func TestDrainBeforeFill(t *testing.T) {
	l := &life{engine: &Engine{}, draining: make(chan struct{}), filled: make(chan struct{})}
	r, w := io.Pipe()
	drained := make(chan error, 1)
	go func() { drained <- l.drain(r) }()

	var stream bytes.Buffer
	var err error
	l.manifest, err = workspace.Fill(&stream, workspace.Source{Code: &workspace.File{Name: "given", Bytes: []byte("x")}}, workspace.FillLimits{})
	if err != nil {
		t.Fatal(err)
	}
	go func() { // the program is quicker than the goroutine that filled
		tw := tar.NewWriter(w)
		for _, name := range []string{"given", "made"} {
			_ = tw.WriteHeader(&tar.Header{Name: name, Size: 1, Mode: 0o644})
			_, _ = tw.Write([]byte("x"))
		}
		w.CloseWithError(tw.Close())
	}()
	<-l.draining
	close(l.filled)
	if err := <-drained; err != nil || l.collectErr != nil {
		t.Fatal(err, l.collectErr)
	}
	if got := l.collected.Artifacts; len(got) != 1 || got[0].Path != "made" {
		t.Errorf("artifacts are %v, want only the file that was made", got)
	}
}

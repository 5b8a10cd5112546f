package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/replay"
	"github.com/silk-sandbox/silk/retention"
	"github.com/silk-sandbox/silk/store"
)

func (a *app) recordExportCommand() *cobra.Command {
	var out, artifacts string
	c := &cobra.Command{
		Use: "export RUN", Short: "Write a run into one file that replays elsewhere", Args: needArgs(1, 1, "one run"),
		Long: `Write into one file what is kept of a run: its signed record, the request and what went in, output, artifacts, and what its image is made
of. silk record verify checks such a file and silk record replay runs it, on any machine that has the image and your public key. Values of
variables and secrets are not in it. silk run keeps no artifacts by itself: --artifacts names the directory that has received them.`,
		Example: "  silk record export 01JF4Z -o run.silk\n  silk record export 01JF4Z -o run.silk --artifacts out",
		RunE:    func(_ *cobra.Command, args []string) error { return a.recordExport(args[0], out, artifacts) },
	}
	c.Flags().StringVarP(&out, "output", "o", "", "`FILE` to write")
	c.Flags().StringVar(&artifacts, "artifacts", "", "`DIR` with the artifacts of the run (default: what a server has kept)")
	_ = c.MarkFlagRequired("output")
	return a.jsonFlag(c)
}

// exported is the JSON of silk record export.
type exported struct {
	Run     string   `json:"run"`
	File    string   `json:"file"`
	Bytes   int64    `json:"bytes"`
	Replays bool     `json:"replays"`         // of a server's run it is not looked at
	Why     []string `json:"why,omitempty"`   // not
	Needs   []string `json:"needs,omitempty"` // variables whose values are to be given again
	Missing []string `json:"missing"`         // artifacts that are not in it
}

func (a *app) recordExport(id, out, artifacts string) error {
	if a.serverURL() != "" {
		if artifacts != "" {
			return usagef("--artifacts is for runs of this host: a server has its own")
		}
		return a.exportFromServer(id, out)
	}
	if artifacts != "" {
		if info, err := os.Stat(artifacts); err != nil || !info.IsDir() {
			return usagef("--artifacts %s is no directory: name the one that received the run's artifacts", artifacts)
		}
	}
	db, home, err := a.openStore()
	if err != nil {
		return runMissing(id, err)
	}
	defer db.Close()
	b, missing, err := a.collect(db, home, id, artifacts)
	if err != nil {
		return err
	}
	if b.Envelope == nil {
		return fmt.Errorf("run %s: %w", b.Kept.Record.Run, record.ErrUnsigned)
	}
	keys, err := a.publicKeys(nil)
	if err != nil {
		return err
	}
	kept := b.Kept.Record
	_, check, err := b.Verify(keys)
	if err != nil {
		return findingf("the record of run %s: %v", kept.Run, err)
	}
	if len(check.Faults) > 0 {
		return findingf("run %s: %s", kept.Run, strings.Join(check.Faults, "; "))
	}
	if err := atomicfile.WriteFunc(out, 0o600, b.Write); err != nil {
		return err
	}
	answer := exported{Run: kept.Run, File: out, Missing: append([]string{}, missing...)}
	r, err := b.Kept.Read()
	if answer.Replays = err == nil; err != nil {
		answer.Why = []string{err.Error()}
	}
	for _, v := range r.Env {
		answer.Needs = append(answer.Needs, v.Name)
	}
	return a.printExported(answer)
}

// exportFromServer gets the file from a server. What it is worth shows whoever verifies it.
func (a *app) exportFromServer(id, out string) error {
	return a.onServer(id, func(c *client.Client, run string) error {
		in, err := c.Bundle(a.ctx, run)
		if err != nil {
			return err
		}
		defer in.Close() // it was only read
		if err := atomicfile.WriteFunc(out, 0o600, func(w io.Writer) error {
			_, err := io.Copy(w, in)
			return err
		}); err != nil {
			return err
		}
		f, err := os.Open(out)
		if err != nil {
			return err
		}
		defer f.Close() // it was only read
		if _, err := replay.ReadBundle(f); err != nil {
			return fmt.Errorf("what the server has sent is not whole: %w", errors.Join(err, os.Remove(out)))
		}
		return a.printExported(exported{Run: run, File: out, Missing: []string{}})
	})
}

func (a *app) printExported(answer exported) error {
	info, err := os.Stat(answer.File)
	if err != nil {
		return err
	}
	answer.Bytes = info.Size()
	if a.json {
		return a.printJSON(answer)
	}
	rows := [][]string{{"run", answer.Run}, {"file", fmt.Sprintf("%s, %s", printable(answer.File), sizeText(answer.Bytes))}}
	for _, why := range answer.Why {
		rows = append(rows, []string{"note", printable(why)})
	}
	for _, name := range answer.Needs {
		rows = append(rows, []string{"needs", printable("--env " + name + "=..., whose value is not kept")})
	}
	for _, name := range answer.Missing {
		rows = append(rows, []string{"not in it", "artifact " + printable(name)})
	}
	return a.table(rows)
}

// bundleOf is what is kept of a run, but for its artifacts.
func (a *app) bundleOf(db *store.DB, home, id string) (replay.Bundle, error) {
	b, _, err := a.collect(db, home, id, "")
	return b, err
}

// collect is what is kept of a run. artifacts is where they are; "": where a server has put them.
func (a *app) collect(db *store.DB, home, id, artifacts string) (replay.Bundle, []string, error) {
	c, err := a.loadConfig()
	if err != nil {
		return replay.Bundle{}, nil, err
	}
	e, err := record.Get(a.ctx, db, id)
	if err != nil {
		return replay.Bundle{}, nil, runMissing(id, err)
	}
	images, err := openImageStore(c, home)
	if err != nil {
		return replay.Bundle{}, nil, err
	}
	return replay.Collect(a.ctx, db, replay.Places{
		Home: home, Artifacts: or(artifacts, filepath.Join(home, retention.ArtifactsDir, e.Record.Run)), Image: images.describe,
	}, e.Record.Run)
}

// describe is what the store knows of an image, JSON.
func (s imageStore) describe(digest string) ([]byte, error) {
	img, err := s.Resolve(digest)
	if err != nil {
		return nil, err
	}
	meta, err := s.Meta(img)
	if err != nil {
		return nil, err
	}
	return json.Marshal(meta)
}

// readBundle reads and verifies a file of silk record export.
func (a *app) readBundle(name string, keyFiles []string) (b replay.Bundle, faults []string, err error) {
	keys, err := a.publicKeys(keyFiles)
	if err != nil {
		return b, nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return b, nil, err
	}
	defer f.Close() // it was only read
	head := make([]byte, 2)
	if _, err := io.ReadFull(f, head); err != nil || !replay.IsBundle(head) {
		return b, nil, usagef("%s is no file of silk record export, which is what can be replayed; a signed record alone is checked with silk record verify", name)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return b, nil, err
	}
	if b, err = replay.ReadBundle(f); err != nil {
		return b, nil, findingf("%s: %v", name, err)
	}
	_, check, err := b.Verify(keys)
	if err != nil {
		return b, nil, findingf("%s: %v", name, err)
	}
	return b, check.Faults, nil
}

package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/client"
	"github.com/silk-sandbox/silk/record"
	"github.com/silk-sandbox/silk/replay"
)

func (a *app) recordCommand() *cobra.Command {
	show := &cobra.Command{
		Use: "show RUN", Short: "Print the signed record of a run", Args: needArgs(1, 1, "one run"),
		Long: `Print the signed record of a run as others can check it: an in-toto statement in a DSSE envelope, JSON on one line.
silk runs show prints what is in it, for people.`,
		Example: "  silk record show 01JF4Z > run.json",
		RunE:    func(_ *cobra.Command, args []string) error { return a.recordShow(args[0]) },
	}
	var c recordCheck
	verify := &cobra.Command{
		Use: "verify FILE", Short: "Check the signature of a record, and what came out of the run", Args: needArgs(1, 1, "one file, or - for standard input"),
		Long: `Check that a record is what silk signed, with nothing but the file and a public key: any machine can. Of a file of silk record export
it checks all that is in it. With --stdout,
--stderr and --artifacts it checks the files that came out of the run, too, by the hashes in the record, and names each that is
another or not there. Exit code 0: all is as it was. 1: something was changed, which is said. 125: it could not be checked.`,
		Example: "  silk record verify run.json --key silk.pub\n  silk record verify run.json --key silk.pub --artifacts out/ --stdout log.txt",
		RunE:    func(_ *cobra.Command, args []string) error { return a.recordVerify(args[0], c) },
	}
	verify.Flags().StringArrayVar(&c.keys, "key", nil, "`FILE` with public keys in PEM, any of which may have signed (default: those of this host); may be repeated")
	verify.Flags().StringVar(&c.stdout, "stdout", "", "`FILE` with what the program wrote to stdout, all of it")
	verify.Flags().StringVar(&c.stderr, "stderr", "", "`FILE` with what the program wrote to stderr, all of it")
	verify.Flags().StringVar(&c.artifacts, "artifacts", "", "`DIR` with the artifacts of the run")
	var rotate bool
	key := &cobra.Command{
		Use: "key", Short: "Print the public keys that check this host's records", Args: needArgs(0, 0, "no arguments"),
		Long: `Print the public keys of this host in PEM, the one that signs first: give them to whoever is to check records. --rotate makes
a new key, which signs from then on; the old ones still check what they have signed. A service signs with the new one when it
starts again.`,
		Example: "  silk record key > silk.pub\n  silk record key --rotate",
		RunE:    func(*cobra.Command, []string) error { return a.recordKey(rotate) },
	}
	key.Flags().BoolVar(&rotate, "rotate", false, "make a new key first")
	return group("record", "Show, check, hand on and replay signed records of runs", "  silk record show 01JF4Z > run.json\n  silk record verify run.json --key silk.pub\n  silk record replay 01JF4Z",
		append([]*cobra.Command{show, a.jsonFlag(verify), a.recordReplayCommand(), a.recordExportCommand(), key}, a.holdCommands()...)...)
}

func (a *app) recordShow(id string) error {
	if a.serverURL() != "" {
		return a.onServer(id, func(c *client.Client, run string) error {
			text, err := c.Envelope(a.ctx, run)
			if err == nil {
				_, err = fmt.Fprintf(a.out, "%s\n", text)
			}
			return err
		})
	}
	db, _, err := a.openStore()
	if err != nil {
		return runMissing(id, err)
	}
	defer db.Close()
	e, err := record.Get(a.ctx, db, id)
	if err != nil {
		return runMissing(id, err)
	}
	text, err := record.Envelope(a.ctx, db, e.Record.Run)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.out, "%s\n", text)
	return err
}

// recordCheck is what a record is checked with.
type recordCheck struct {
	keys                      []string
	stdout, stderr, artifacts string
}

// recordAnswer is what silk record verify says.
type recordAnswer struct {
	Run       string   `json:"run,omitempty"`
	SHA256    string   `json:"sha256,omitempty"`
	KeyID     string   `json:"key_id,omitempty"`
	Checked   []string `json:"checked"`             // besides the record
	Missing   []string `json:"missing,omitempty"`   // is not in the bundle
	Unchecked []string `json:"unchecked,omitempty"` // could be anything
	Faults    []string `json:"faults"`
}

func (a *app) recordVerify(name string, c recordCheck) error {
	keys, err := a.publicKeys(c.keys)
	if err != nil {
		return err
	}
	text, err := a.readWhole(name, maxRecordFile)
	if err != nil {
		return err
	}
	if !replay.IsBundle(text) && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return usagef("%s is neither a signed record (silk record show) nor a run in a file (silk record export)", name)
	}
	answer := recordAnswer{Checked: []string{}, Faults: []string{}}
	v, check, err := verifyFile(text, keys)
	switch {
	case err == nil:
		answer.Checked, answer.Faults = append(answer.Checked, check.Checked...), append(answer.Faults, check.Faults...)
		answer.Missing, answer.Unchecked = check.Missing, check.Unchecked
		answer.Run, answer.SHA256, answer.KeyID = v.Record.Run, v.SHA256, v.Key.ID()
		if err := c.files(v.Record, &answer); err != nil {
			return err
		}
	case errors.Is(err, record.ErrEnvelope), errors.Is(err, record.ErrChanged), errors.Is(err, record.ErrUnknownKey):
		answer.Faults = append(answer.Faults, err.Error())
	default:
		return err
	}
	if err := a.printCheck(v.Record, answer); err != nil || len(answer.Faults) == 0 {
		return err
	}
	return &findingError{name + ": " + strings.Join(answer.Faults, "; ")}
}

// maxRecordFile bounds a file that is checked: a bundle has artifacts in it.
const maxRecordFile = 1 << 30

// verifyFile checks an envelope, or a bundle, in which more may be another than it was.
func verifyFile(text []byte, keys []record.PublicKey) (record.Verified, replay.Check, error) {
	if !replay.IsBundle(text) {
		v, err := record.Verify(text, keys)
		return v, replay.Check{}, err
	}
	b, err := replay.ReadBundle(bytes.NewReader(text))
	if err != nil {
		return record.Verified{}, replay.Check{}, fmt.Errorf("%w: %w", record.ErrEnvelope, err)
	}
	return b.Verify(keys)
}

func (a *app) printCheck(r record.Record, answer recordAnswer) error {
	if a.json {
		return a.printJSON(answer)
	}
	if answer.Run == "" {
		return nil
	}
	rows := [][]string{
		{"run", printable(r.Run)},
		{"outcome", printable(r.Outcome.Kind)},
		{"command", printable(r.Command)},
		{"image", printable(r.Image)},
		{"sha256", answer.SHA256},
		{"signed by", answer.KeyID},
	}
	for _, list := range []struct {
		word  string
		names []string
	}{{"as it was", answer.Checked}, {"not in it", answer.Missing}, {"not checked", answer.Unchecked}} {
		for _, name := range list.names {
			rows = append(rows, []string{list.word, printable(name)})
		}
	}
	return a.table(rows)
}

// publicKeys are those of files, or those of this host.
func (a *app) publicKeys(files []string) (all []record.PublicKey, err error) {
	for _, f := range files {
		keys, err := record.ReadPublicKeys(f)
		if err != nil {
			return nil, err
		}
		all = append(all, keys...)
	}
	if len(files) > 0 {
		return all, nil
	}
	return a.ownKeys()
}

// ownKeys are the public keys of this host, the one that signs first: the owner's command's, if he has one.
func (a *app) ownKeys() (all []record.PublicKey, err error) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	if file := c.records.signer.key; file != "" {
		if all, err = record.ReadPublicKeys(file); err != nil {
			return nil, err
		}
	}
	home, err := a.home(c)
	if err != nil {
		return nil, err
	}
	keys, err := record.PublicKeysIn(filepath.Join(home, keysDir))
	if all = append(all, keys...); err == nil && len(all) == 0 {
		err = usagef("this host has no keys yet, with which it would have signed: --key FILE names the public key of the one that has")
	}
	return all, err
}

// openKeys opens the keys of this host, which are there once something has run.
func (a *app) openKeys() (*record.Keyring, error) {
	c, err := a.loadConfig()
	if err != nil {
		return nil, err
	}
	home, err := a.home(c)
	if err != nil {
		return nil, err
	}
	if err := makeHome(home); err != nil {
		return nil, err
	}
	return record.OpenKeyring(a.ctx, filepath.Join(home, keysDir))
}

func (a *app) recordKey(rotate bool) error {
	ring, err := a.openKeys()
	if err != nil {
		return err
	}
	if rotate {
		if _, err := ring.Rotate(a.ctx); err != nil {
			return err
		}
	}
	keys, err := a.ownKeys()
	if err != nil {
		return err
	}
	for _, k := range keys {
		if _, err := io.WriteString(a.out, k.PEM()); err != nil {
			return err
		}
	}
	return nil
}

// readWhole reads a file, or standard input.
func (a *app) readWhole(name string, most int64) ([]byte, error) {
	in := a.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close() // it was only read
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("%s has more than %d bytes", name, most)
	}
	return text, err
}

// files compares what came out of a run with its record. That a file could not be read is an error, that it is another a fault.
func (c recordCheck) files(r record.Record, to *recordAnswer) error {
	check := func(what, path, want string, open func(string) (*os.File, error)) error {
		got, err := fileSHA256(path, open)
		switch {
		case errors.Is(err, os.ErrNotExist):
			to.Faults = append(to.Faults, fmt.Sprintf("%s is not there: %s", what, path))
		case errors.Is(err, errNoFile):
			to.Faults = append(to.Faults, fmt.Sprintf("%s was a file, and %s is something else now", what, path))
		case err != nil:
			return err
		case got != want:
			to.Faults = append(to.Faults, fmt.Sprintf("%s was changed: its SHA-256 is %s, in the record it is %s", what, got, want))
		default:
			to.Checked = append(to.Checked, what)
		}
		return nil
	}
	for _, ch := range []struct{ what, path, want string }{{"stdout", c.stdout, r.Stdout.SHA256}, {"stderr", c.stderr, r.Stderr.SHA256}} {
		if ch.path == "" {
			continue
		}
		if err := check(ch.what, ch.path, ch.want, os.Open); err != nil {
			return err
		}
	}
	if c.artifacts == "" {
		return nil
	}
	dir, err := os.OpenRoot(c.artifacts) // a program chose the names
	if err != nil {
		return fmt.Errorf("open the artifacts: %w", err)
	}
	defer dir.Close()
	for _, f := range r.Artifacts {
		if f.Type != "file" || f.Omitted != "" {
			continue
		}
		path := f.Path
		if f.PathB64 != "" {
			raw, err := base64.StdEncoding.DecodeString(f.PathB64)
			if err != nil {
				return fmt.Errorf("artifact %s: its path_b64 is not base64: %w", printable(f.PathB64), err)
			}
			path = string(raw)
		}
		if err := check("artifact "+printable(path), filepath.FromSlash(path), f.SHA256, fileIn(dir)); err != nil {
			return err
		}
	}
	return nil
}

// errNoFile is of what is no regular file, and is not opened: a pipe would be waited for.
var errNoFile = errors.New("it is no file")

// fileIn opens regular files of a directory.
func fileIn(dir *os.Root) func(string) (*os.File, error) {
	return func(path string) (*os.File, error) {
		switch info, err := dir.Lstat(path); {
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular():
			return nil, errNoFile
		}
		return dir.Open(path)
	}
}

func fileSHA256(path string, open func(string) (*os.File, error)) (string, error) {
	f, err := open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

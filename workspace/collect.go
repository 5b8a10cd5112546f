package workspace

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
)

// moreName is the name of an omitted entry by which a driver says that it does not send further entries at all.
const moreName = "."

const (
	headBytes = 64 << 10 // kept in memory of each file; below this size nothing unchanged touches the disk
	listBytes = 4 << 20  // of all listed names together
)

// Collect reads the tar stream of a final workspace from r up to its end-of-archive blocks, and returns what is new or changed since before.
//
// A file counts as changed if its content or its type did, not for its permissions or times. A file whose content was
// not sent, or is beyond cfg.FileBytes, counts as changed if its size or modification time is. Directories are no
// artifacts. Nothing that the stream holds is followed, opened or executed; with cfg.Dir, files that are kept are
// copied there, which is made if it is missing, with their executable bit, through the directory itself and never through a link in it, and replace
// files of the same name at once and whole.
//
// If the stream is damaged or cut off, Collect returns what had arrived whole and an error. If the host cannot write to
// cfg.Dir any more, it goes on listing and returns that error at the end. A single name that cannot be written there is
// no error: its artifact says so. Memory is bounded whatever the stream holds. Collect does not close r.
func Collect(r io.Reader, before Manifest, cfg CollectConfig) (Collected, error) {
	c := collector{
		cfg:    cfg.withDefaults(),
		before: before,
		ignore: map[string]bool{},
		listed: map[string]bool{},
		end:    &zeroTail{r: r},
		head:   make([]byte, headBytes),
		buf:    make([]byte, copyBufferBytes),
	}
	for _, name := range cfg.Ignore {
		c.ignore[name] = true
	}
	err := c.collect()
	if c.out != nil {
		c.outErr = errors.Join(c.outErr, c.out.close())
	}
	return c.got, errors.Join(err, c.outErr)
}

type collector struct {
	cfg    CollectConfig
	before Manifest
	ignore map[string]bool
	end    *zeroTail
	head   []byte
	buf    []byte

	out    *output // nil: nothing has been copied yet
	outErr error   // why nothing more is copied

	got       Collected
	listed    map[string]bool // names, to refuse a second entry of the same name
	files     int
	specials  int
	displays  int
	nameBytes int
}

func (c *collector) collect() error {
	tr := tar.NewReader(c.end)
	for n := 0; ; n++ {
		c.end.zeros = 0
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			if c.end.zeros < trailerBytes {
				return fmt.Errorf("read final workspace: after %d entries: %w", n, io.ErrUnexpectedEOF)
			}
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // names are judged below
			return fmt.Errorf("read final workspace: entry %d: %w", n+1, err)
		}
		if err := c.add(h, tr); err != nil {
			return fmt.Errorf("read final workspace: entry %d (%.200q): %w", n+1, h.Name, err)
		}
	}
}

// add handles one entry and, unless it is sparse, reads all of its content: what the tar reader takes next is then the
// header that follows, and a stream that is cut off there is seen.
func (c *collector) add(h *tar.Header, content io.Reader) error {
	typ, err := entryType(h)
	if err != nil {
		return err
	}
	elements, plain := splitName(h.Name)
	name := h.Name
	if plain {
		name = strings.Join(elements, "/")
	}
	switch {
	case typ == TypeDir, h.Typeflag == tar.TypeXGlobalHeader:
		return discard(content)
	case c.displayed(elements, name):
		return c.addDisplay(h, typ, elements, name, content)
	case c.ignored(elements):
		c.got.Ignored++
		return discard(content)
	case c.listed[name]:
		return errors.New("the name appears twice")
	case typ != TypeFile:
		c.addSpecial(h, typ, name)
		return discard(content)
	}
	a := Artifact{Type: TypeFile, Size: h.Size, Mode: h.FileInfo().Mode().Perm()}
	reason, omitted := h.PAXRecords[RecordOmitted]
	switch {
	case omitted && h.Name == moreName:
		c.got.More++
		return discard(content)
	case omitted:
		a.Omitted = printable(reason)
		a.Size, err = strconv.ParseInt(h.PAXRecords[RecordSize], 10, 64)
		if err != nil || a.Size < 0 || h.Size != 0 {
			return fmt.Errorf("its content of %q bytes was omitted: the header contradicts itself", h.PAXRecords[RecordSize])
		}
	case isSparse(h): // a few bytes may stand for terabytes of zeros, which nobody shall read
		a.Omitted = "sent without its holes"
	case h.Size > c.cfg.FileBytes:
		a.Omitted = fmt.Sprintf("larger than the %s that one artifact may have", megabytes(c.cfg.FileBytes))
	case !plain:
		a.Omitted = "its name leads out of the workspace"
	case isTemp(elements[len(elements)-1]):
		a.Omitted = "its name is one that files have while they are copied"
	default:
		return c.addFile(a, name, elements, content)
	}
	old, known := c.before.Entries[name]
	if !known || old.Type != TypeFile || old.Size != a.Size || old.ModTime.Unix() != h.ModTime.Unix() {
		c.list(a, name)
	}
	if isSparse(h) {
		return nil
	}
	return discard(content)
}

// addFile reads a file and, if it is new or changed, keeps and lists it.
func (c *collector) addFile(a Artifact, name string, elements []string, content io.Reader) error {
	hash := sha256.New()
	content = io.TeeReader(content, hash)
	n, err := io.ReadFull(content, c.head)
	if err != nil && int64(n) < a.Size {
		return err
	}
	head := c.head[:n]
	old, known := c.before.Entries[name]
	maySame := known && old.Type == TypeFile && old.Size == a.Size
	if maySame && int64(n) == a.Size && isSame(hash, old) {
		return nil
	}
	a.MIME = mimetype.Detect(head).String()
	full := c.files >= c.cfg.Files
	if !full && a.Size > c.cfg.TotalBytes-c.got.Bytes {
		a.Omitted = fmt.Sprintf("beyond the %s that all artifacts together may have", megabytes(c.cfg.TotalBytes))
	}

	var copied *pending
	switch {
	case full || a.Omitted != "" || c.cfg.Dir == "":
	case maySame && int64(n) < a.Size: // the directories that lead to it are made only when it is known to differ
		copied, a.Omitted = c.create(func() (*pending, error) { return c.out.spool() })
	default:
		copied, a.Omitted = c.create(func() (*pending, error) { return c.out.create(elements, a.Mode) })
	}
	if err := c.copyContent(copied, &a, head, content); err != nil {
		return err
	}
	if maySame && isSame(hash, old) {
		copied.discard()
		return nil
	}
	if full {
		c.got.More++
		return nil
	}
	if copied != nil && a.Omitted == "" {
		if err := c.out.commit(copied, elements, a.Mode, c.buf); err != nil {
			a.Omitted = c.writeFailed(err)
		}
	}
	a.SHA256 = hex.EncodeToString(hash.Sum(nil))
	c.list(a, name)
	return nil
}

func isSame(h hash.Hash, old Entry) bool { return bytes.Equal(h.Sum(nil), old.SHA256[:]) }

// create begins the copy of an artifact; if that cannot be, it says why.
func (c *collector) create(begin func() (*pending, error)) (*pending, string) {
	if c.out == nil && c.outErr == nil { // most runs leave nothing, and need no directory
		var err error
		if c.out, err = openOutput(c.cfg.Dir); err != nil {
			c.outErr = fmt.Errorf("open artifact directory: %w", err)
		}
	}
	if c.outErr != nil {
		return nil, notCopied
	}
	p, err := begin()
	if err != nil {
		return nil, c.writeFailed(err)
	}
	return p, ""
}

const notCopied = "not copied: the artifact directory cannot be written to any more"

// writeFailed says why one artifact was not copied, and remembers an error that ends all copying.
func (c *collector) writeFailed(err error) string {
	if isHostError(err) {
		c.outErr = fmt.Errorf("write artifact: %w", err)
		return notCopied
	}
	return "not copied: " + printable(err.Error())
}

// copyContent reads content to its end, and writes head and it into p as long as p can be written to.
func (c *collector) copyContent(p *pending, a *Artifact, head []byte, content io.Reader) error {
	if p != nil {
		w := errWriter{w: p.file}
		_, err := w.Write(head)
		if err == nil {
			_, err = io.CopyBuffer(&w, content, c.buf)
		}
		if err == nil {
			return nil
		}
		p.discard()
		if w.err == nil { // the stream broke, not the file
			return err
		}
		c.outErr = fmt.Errorf("write artifact: %w", w.err)
		a.Omitted = notCopied
	}
	return discard(content)
}

// addSpecial lists a link, FIFO, socket or device that is new or has changed.
func (c *collector) addSpecial(h *tar.Header, typ Type, name string) {
	if old, ok := c.before.Entries[name]; ok && typ == TypeLink && old.Type == TypeLink &&
		old.SHA256 == sha256.Sum256([]byte(h.Linkname)) {
		return
	}
	c.list(Artifact{Type: typ, Mode: h.FileInfo().Mode().Perm()}, name)
}

// list appends a to the list if there is room for it, and else counts it.
func (c *collector) list(a Artifact, name string) {
	count := &c.files
	if a.Type != TypeFile {
		count = &c.specials
	}
	if *count >= c.cfg.Files || c.nameBytes+len(name) > listBytes {
		c.got.More++
		return
	}
	*count++
	c.nameBytes += len(name)
	c.listed[name] = true
	a.Path = name
	if !utf8.ValidString(name) {
		a.PathB64 = base64.StdEncoding.EncodeToString([]byte(name))
		a.Path = strings.ToValidUTF8(name, string(utf8.RuneError))
	}
	switch {
	case a.Omitted != "":
		c.got.Omitted++
	case a.Type == TypeFile:
		c.got.Bytes += a.Size
	}
	c.got.Artifacts = append(c.got.Artifacts, a)
}

func (c *collector) ignored(elements []string) bool {
	for _, e := range elements {
		if c.ignore[e] {
			return true
		}
	}
	return false
}

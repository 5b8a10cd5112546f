package recipe

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/silk-sandbox/silk/image"
)

// wheel is a wheel that is being unpacked.
type wheel struct {
	tree   *image.Tree
	site   string            // where packages that do not come from Debian live
	info   string            // NAME-VERSION.dist-info
	record map[string][]byte // sha256 of each file, by name; files that were seen are taken off
}

// addWheel unpacks a Python wheel, see the binary distribution format in the Python Packaging User Guide. Every file
// must be in RECORD with the sha256 that stands there.
func addWheel(t *image.Tree, name string, r io.ReaderAt, size int64) (image.Package, error) {
	minor, err := pythonMinor(t)
	if err != nil {
		return image.Package{}, err
	}
	p, err := checkWheelName(name, minor)
	if err != nil {
		return image.Package{}, err
	}
	archive, err := zip.NewReader(r, size)
	if err != nil {
		return image.Package{}, err
	}
	w := wheel{tree: t, site: fmt.Sprintf("usr/local/lib/python3.%d/dist-packages", minor)}
	if w.info, w.record, err = readRecord(archive); err != nil {
		return image.Package{}, err
	}
	for _, f := range archive.File {
		if strings.HasSuffix(f.Name, "/") {
			continue
		}
		if err := named(f.Name, w.add(f)); err != nil {
			return image.Package{}, err
		}
	}
	for left := range w.record {
		return image.Package{}, fmt.Errorf("RECORD lists %q, which is not in the wheel", left)
	}
	return p, addEntryPoints(t, path.Join(w.site, w.info, "entry_points.txt"))
}

// pythonMinor finds the 13 of Python 3.13.
func pythonMinor(t *image.Tree) (int, error) {
	e, ok := t.Stat("usr/bin/python3")
	if ok {
		if minor, err := strconv.Atoi(strings.TrimPrefix(path.Base(e.Path), "python3.")); err == nil {
			return minor, nil
		}
	}
	return 0, errors.New("the image has no Python to install it for")
}

// checkWheelName refuses wheels that this Python on this platform could not import.
func checkWheelName(name string, minor int) (image.Package, error) {
	parts := strings.Split(strings.TrimSuffix(name, ".whl"), "-")
	if len(parts) != 5 && len(parts) != 6 {
		return image.Package{}, errors.New("the file name is not that of a wheel")
	}
	python, abi, platform := parts[len(parts)-3], parts[len(parts)-2], parts[len(parts)-1]
	here := fmt.Sprintf("cp3%d", minor)
	fits := func(tags string, ok func(string) bool) bool {
		for tag := range strings.SplitSeq(tags, ".") {
			if ok(tag) {
				return true
			}
		}
		return false
	}
	limited := fits(abi, func(s string) bool { return s == "abi3" })
	switch {
	case !fits(platform, func(s string) bool {
		return s == "any" || s == "linux_x86_64" || strings.HasPrefix(s, "manylinux") && strings.HasSuffix(s, "_x86_64")
	}):
		return image.Package{}, fmt.Errorf("it is for platform %s, the image is linux_x86_64", platform)
	case !fits(abi, func(s string) bool { return s == "none" || s == "abi3" || s == here }):
		return image.Package{}, fmt.Errorf("it is for ABI %s, the image has %s", abi, here)
	case !fits(python, func(s string) bool {
		old, err := strconv.Atoi(strings.TrimPrefix(s, "cp3"))
		return s == "py3" || s == fmt.Sprintf("py3%d", minor) || s == here || limited && err == nil && old <= minor
	}):
		return image.Package{}, fmt.Errorf("it is for Python %s, the image has %s", python, here)
	}
	return image.Package{Name: "wheel:" + parts[0], Version: parts[1]}, nil
}

// readRecord finds the one .dist-info directory and reads its RECORD: the sha256 of each file, by name.
func readRecord(archive *zip.Reader) (info string, record map[string][]byte, err error) {
	for _, f := range archive.File {
		dir, base := path.Split(f.Name)
		if dir = strings.TrimSuffix(dir, "/"); base != "RECORD" || !strings.HasSuffix(dir, ".dist-info") || strings.Contains(dir, "/") {
			continue
		}
		if info != "" {
			return "", nil, errors.New("more than one RECORD")
		}
		info = dir
		file, err := f.Open()
		if err != nil {
			return "", nil, err
		}
		rows, err := csv.NewReader(io.LimitReader(file, 64<<20)).ReadAll()
		if err = errors.Join(err, file.Close()); err != nil {
			return "", nil, fmt.Errorf("RECORD: %w", err)
		}
		record = map[string][]byte{}
		for _, row := range rows {
			if len(row) != 3 {
				return "", nil, fmt.Errorf("RECORD: a line of %d fields", len(row))
			}
			if unhashed(info, row[0]) {
				continue
			}
			sum, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(row[1], "sha256="))
			if err != nil || len(sum) != sha256.Size {
				return "", nil, fmt.Errorf("RECORD: %q has no sha256", row[0])
			}
			record[row[0]] = sum
		}
	}
	if info == "" {
		return "", nil, errors.New("no RECORD")
	}
	return info, record, nil
}

// unhashed are the files that cannot be in RECORD with a hash.
func unhashed(info, name string) bool {
	return name == info+"/RECORD" || name == info+"/RECORD.jws" || name == info+"/RECORD.p7s"
}

// add puts one file where installers put it, and compares it with RECORD.
func (w wheel) add(f *zip.File) error {
	if !fs.ValidPath(f.Name) || !f.Mode().IsRegular() {
		return &image.RefusedError{Entry: f.Name, Err: errors.New("is not a regular file inside the wheel")}
	}
	want, listed := w.record[f.Name]
	if !listed && !unhashed(w.info, f.Name) {
		return errors.New("is not in RECORD")
	}
	delete(w.record, f.Name)
	file, err := f.Open()
	if err != nil {
		return err
	}
	defer file.Close()
	sum := sha256.New()
	var content io.Reader = io.TeeReader(file, sum)
	dst, mode := w.destination(f.Name), plainMode(f.Mode())
	if path.Dir(dst) == localBin {
		mode, content = 0o755, shebang(content)
	}
	if err := w.tree.AddFile(dst, mode, w.tree.Epoch(), content); err != nil {
		return err
	}
	if listed && !bytes.Equal(sum.Sum(nil), want) {
		return errors.New("is not what RECORD says")
	}
	return nil
}

const localBin = "usr/local/bin"

// destination is where a file of the wheel belongs: most in site, those in NAME-VERSION.data where their scheme says.
func (w wheel) destination(name string) string {
	rest, ok := strings.CutPrefix(name, strings.TrimSuffix(w.info, ".dist-info")+".data/")
	if !ok {
		return path.Join(w.site, name)
	}
	scheme, below, _ := strings.Cut(rest, "/")
	switch scheme {
	case "purelib", "platlib":
		return path.Join(w.site, below)
	case "scripts":
		return path.Join(localBin, below)
	case "data":
		return path.Join("usr/local", below)
	default: // headers
		return path.Join("usr/local/include", below)
	}
}

// shebang replaces a first line "#!python" or "#!pythonw", as the format asks of installers.
func shebang(r io.Reader) io.Reader {
	buffered := bufio.NewReader(r)
	if head, err := buffered.Peek(8); err == nil && string(head) == "#!python" {
		if _, err := buffered.ReadString('\n'); err == nil {
			return io.MultiReader(strings.NewReader("#!/usr/bin/python3\n"), buffered)
		}
	}
	return buffered
}

// addEntryPoints makes the commands in the console_scripts section of entry_points.txt.
func addEntryPoints(t *image.Tree, name string) error {
	if _, ok := t.Lookup(name); !ok {
		return nil
	}
	r, err := t.Open(name)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxManifestBytes))
	if err != nil {
		return err
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[] ")
			continue
		}
		command, target, ok := strings.Cut(line, "=")
		target, _, _ = strings.Cut(target, "[") // extras
		module, attribute, found := strings.Cut(strings.TrimSpace(target), ":")
		command = strings.TrimSpace(command)
		if section != "console_scripts" || !ok {
			continue
		}
		if !word(command) || !found || !dotted(module) || !dotted(attribute) {
			return fmt.Errorf("entry_points.txt: %q is not a command", strings.TrimSpace(line))
		}
		first, _, _ := strings.Cut(attribute, ".")
		script := fmt.Sprintf("#!/usr/bin/python3\nimport sys\nfrom %s import %s\nsys.exit(%s())\n", module, first, attribute)
		if err := t.AddFile(path.Join(localBin, command), 0o755, t.Epoch(), strings.NewReader(script)); err != nil {
			return err
		}
	}
	return nil
}

// dotted reports whether s is Python names joined by dots.
func dotted(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		if part == "" || strings.Trim(part, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			return false
		}
	}
	return true
}

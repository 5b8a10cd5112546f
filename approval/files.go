package approval

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// File is something else than its code that a program gets: a file, or its input. Code often does no more than to run what
// lies beside it, so the owner is shown that, too.
type File struct {
	Name       string `json:"name"`                 // "/workspace/lib.py" or [Stdin], as [Show] makes it; empty: see Omitted
	Bytes      int    `json:"bytes"`                // of the content
	SHA256     string `json:"sha256,omitempty"`     // of the content; empty if that is not known
	Executable bool   `json:"executable,omitempty"` // it may be run as a program
	Text       string `json:"text,omitempty"`       // the content, as Show makes it
	Omitted    string `json:"omitted,omitempty"`    // why Text is not the whole content, as a sentence; empty if it is
}

// Stdin is the name of a program's input among its files, which all begin with a slash.
const Stdin = "stdin"

// files makes visible what r brings along, as far as there is room.
func (r Request) files() (all []File) {
	room := MaxFilesBytes
	add := func(name, content string, executable bool) {
		sum := sha256.Sum256([]byte(content))
		f := File{Name: shortName(name), Bytes: len(content), SHA256: hex.EncodeToString(sum[:]), Executable: executable}
		if len(content) <= room {
			f.Text, f.Omitted = Show(content)
			room -= len(content)
		} else {
			f.Omitted = fmt.Sprintf("%d bytes, not shown: there is too much", len(content))
		}
		all = append(all, f)
	}
	if r.Stdin != "" { // first: it is as often a program as a file is
		add(Stdin, r.Stdin, false)
	}
	if r.StdinOpen {
		all = append(all, File{Name: Stdin, Omitted: "it is sent while the program runs, so nobody can see it before"})
	}
	for i, u := range r.Files {
		if i == MaxFiles {
			all = append(all, File{Omitted: fmt.Sprintf("%d files more, not shown and not named", len(r.Files)-i)})
			break
		}
		add("/workspace/"+u.Name, u.Content, u.Executable)
	}
	return all
}

// shortName makes a name visible and bounds it. Two names stay two names.
func shortName(name string) string {
	const most = 512
	shown := visible(name)
	if len(shown) <= most {
		return shown
	}
	return fmt.Sprintf("%s (and more, SHA-256 of the name %x)", strings.ToValidUTF8(shown[:most-128], ""), sha256.Sum256([]byte(name)))
}

func encodeFiles(all []File) string {
	if len(all) == 0 {
		return ""
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(fmt.Sprintf("encode files: %v", err)) // they are plain values
	}
	return string(text)
}

func decodeFiles(text string) (all []File, err error) {
	if text == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("decode files: %w", err)
	}
	return all, nil
}

package selftest

import (
	"bytes"
	"compress/gzip"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
)

//go:embed files
var files embed.FS

// ErrNotBuilt is returned when silk was built without its attack program.
var ErrNotBuilt = errors.New("this silk was built without its attack program: run `make build`")

// maxAttackBytes bounds what is unpacked; the program has some 2 MB.
const maxAttackBytes = 32 << 20

// Attack is the attack program (cmd/silk-attack): a static executable for Linux on amd64.
func Attack() ([]byte, error) {
	packed, err := files.ReadFile("files/silk-attack.gz")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotBuilt
	}
	if err != nil {
		return nil, fmt.Errorf("embedded attack program: %w", err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, fmt.Errorf("embedded attack program: %w", err)
	}
	program, err := io.ReadAll(io.LimitReader(r, maxAttackBytes)) // checks the sum at the end
	if err != nil {
		return nil, fmt.Errorf("embedded attack program: %w", err)
	}
	return program, nil
}

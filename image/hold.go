package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

// HeldError is returned by [Store.Remove] for an image that somebody holds.
type HeldError struct {
	Digest Digest
	Names  []string // under which it is held
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("image %s is held for %s", e.Digest.Short(), strings.Join(e.Names, ", "))
}

// nameBytes are those of the names of holds: ids of runs.
const nameBytes = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// Hold keeps an image in the home store whatever is asked of [Store.Remove] and [Store.GC], until [Store.Release] with the same name, of
// capital letters and digits. What only a system store has is copied into the home store first, since others may take it away there.
func (s *Store) Hold(ctx context.Context, d Digest, name string) error {
	if err := s.hold(ctx, d, name); err != nil {
		return fmt.Errorf("hold image %s: %w", d.Short(), err)
	}
	return nil
}

func (s *Store) hold(ctx context.Context, d Digest, name string) error {
	if name == "" || strings.Trim(name, nameBytes) != "" {
		return fmt.Errorf("the name %q has other characters than capital letters and digits", name)
	}
	img, err := s.find(d)
	if errors.Is(err, fs.ErrNotExist) {
		return &notFoundError{d.String()}
	}
	if err == nil && img.System {
		err = s.copy(ctx, img)
	}
	if err != nil {
		return err
	}
	unlock, err := s.lock(shared) // nobody removes anything meanwhile
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Lstat(s.home.blob(d)); errors.Is(err, fs.ErrNotExist) {
		return &notFoundError{d.String()}
	}
	return atomicfile.Write(s.home.held(d, name), nil, 0o644)
}

// copy puts an image of a system store into the home store.
func (s *Store) copy(ctx context.Context, img Image) error {
	meta, err := s.Meta(img)
	if err != nil {
		return err
	}
	file, err := s.OpenRoot(img)
	if err != nil {
		return err
	}
	defer file.Close() // it was only read
	content := io.NewSectionReader(file, 0, img.SizeBytes)
	_, err = s.Put(ctx, func(w io.Writer) error { _, err := io.Copy(w, content); return err }, meta)
	return err
}

// Release ends all holds of that name. One that is not there is no error.
func (s *Store) Release(name string) error {
	unlock, err := s.lock(shared)
	if err != nil {
		return fmt.Errorf("release images: %w", err)
	}
	defer unlock()
	entries, err := readDir(s.home.dir("held"))
	if err != nil {
		return fmt.Errorf("release images: %w", err)
	}
	for _, e := range entries {
		if _, of, ok := strings.Cut(e.Name(), "."); !ok || of != name {
			continue
		}
		if err := os.Remove(s.home.dir("held/" + e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("release images: %w", err)
		}
	}
	return nil
}

func (p place) held(d Digest, name string) string { return p.dir("held/" + d.hex + "." + name) }

// checkHeld returns a [*HeldError] for an image of the home store that is held.
func (s *Store) checkHeld(d Digest) error {
	entries, err := readDir(s.home.dir("held"))
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if hexed, name, _ := strings.Cut(e.Name(), "."); hexed == d.hex {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return &HeldError{d, names}
	}
	return nil
}

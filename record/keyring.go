package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/internal/keyfile"
	"github.com/silk-sandbox/silk/internal/lockfile"
)

// Files of a directory of keys.
const (
	keyName       = "record.pem"    // signs; 0600
	publicPattern = "record-%s.pub" // by the first characters of its id: every key that has signed here
	publicGlob    = "record-*.pub"  //
	shortID       = 16              // characters
)

// Keyring is the directory of the keys with which an engine signs its records: the one that signs, and the public ones of all that
// have. It is safe for concurrent use.
type Keyring struct {
	dir string
	key Key
}

// OpenKeyring opens a directory of keys, makes it if it is not there, and makes a key if it has none. Whoever can read the
// directory can sign in the engine's name.
func OpenKeyring(ctx context.Context, dir string) (*Keyring, error) {
	k := &Keyring{dir: dir}
	err := k.read()
	if errors.Is(err, fs.ErrNotExist) {
		err = k.change(ctx, func() error {
			if err := k.read(); !errors.Is(err, fs.ErrNotExist) { // somebody was faster
				return err
			}
			return k.replace()
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open the key that signs records: %w", err)
	}
	return k, nil
}

// Rotate makes a new key, which signs from now on; engines that are open go on with the old one. What the old one has signed can
// be checked as before.
func (k *Keyring) Rotate(ctx context.Context) (PublicKey, error) {
	next := &Keyring{dir: k.dir}
	if err := next.change(ctx, next.replace); err != nil {
		return PublicKey{}, fmt.Errorf("make a new key that signs records: %w", err)
	}
	return next.key.Public(), nil
}

// Public is the key that signs.
func (k *Keyring) Public() PublicKey { return k.key.Public() }

// All are the public keys of all that have signed here, the one that signs first.
func (k *Keyring) All() ([]PublicKey, error) {
	all, err := PublicKeysIn(k.dir)
	if err != nil {
		return nil, err
	}
	first := k.Public()
	return append([]PublicKey{first}, slices.DeleteFunc(all, func(p PublicKey) bool { return p.ID() == first.ID() })...), nil
}

// PublicKeysIn are the public keys in a directory of keys, which needs no right to sign. There are none where there is no directory.
func PublicKeysIn(dir string) (all []PublicKey, err error) {
	files, err := filepath.Glob(filepath.Join(strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir), publicGlob))
	if err != nil {
		return nil, fmt.Errorf("look for public keys: %w", err)
	}
	for _, path := range files {
		keys, err := ReadPublicKeys(path)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			if !slices.ContainsFunc(all, func(p PublicKey) bool { return p.ID() == key.ID() }) {
				all = append(all, key)
			}
		}
	}
	return all, nil
}

func (k *Keyring) read() (err error) {
	text, err := keyfile.Read(filepath.Join(k.dir, keyName))
	if err != nil {
		return err
	}
	if k.key, err = ParseKey(text); err != nil {
		return fmt.Errorf("read key from %s: %w", filepath.Join(k.dir, keyName), err)
	}
	return nil
}

// change is alone in the directory for as long as do works.
func (k *Keyring) change(ctx context.Context, do func() error) (err error) {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return err
	}
	lock, err := lockfile.Directory(ctx, k.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Leave()) }()
	return do()
}

// replace puts a new key in place of the one that signs. Its public half is there before anything is signed with it.
func (k *Keyring) replace() (err error) {
	if k.key, err = NewKey(); err != nil {
		return err
	}
	public := k.key.Public()
	if err := atomicfile.Write(filepath.Join(k.dir, fmt.Sprintf(publicPattern, public.ID()[:shortID])), []byte(public.PEM()), 0o644); err != nil {
		return err
	}
	text, err := k.key.text()
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(k.dir, keyName), []byte(text), 0o600); err != nil {
		return err
	}
	return atomicfile.SyncDir(k.dir)
}

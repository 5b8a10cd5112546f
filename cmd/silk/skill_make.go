package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/skill"
)

// skillInit is what `silk skill init` makes a manifest of.
type skillInit struct {
	manifest skill.Manifest
	chains   []int
	files    []string
	main     string
	force    bool
	key      keyFlags
}

func (a *app) skillInitCommand() *cobra.Command {
	f := skillInit{manifest: skill.Manifest{Version: skill.Version}}
	m := &f.manifest
	c := &cobra.Command{
		Use: "init [DIR]", Short: "Write a manifest for the program in a directory", Args: needArgs(0, 1, "one directory at most"),
		Long: `Write DIR/manifest.json for the program in DIR: all its files with their hashes, but for what begins with a dot. The manifest has no
signature yet: silk skill sign makes it. The publisher's address is that of a key (--key, --new-key or $SILK_SKILL_KEY), or --address.`,
		Example: "  silk skill init . --name price-check --publisher Ann --contact ann@example.org --new-key ../ann.key\n" +
			"  silk skill init bot --name bot --publisher Ann --contact ann@example.org --key ann.key --main bot.py --network-access",
		RunE: func(_ *cobra.Command, args []string) error { return a.skillInit(&f, args) },
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&m.Name, "name", "", "`NAME` of the skill: 1 to 64 of a-z, 0-9 and -")
	s.StringVar(&m.Publisher.Name, "publisher", "", "`NAME` of who publishes it")
	s.StringVar(&m.Publisher.Contact, "contact", "", "`ADDRESS` of the publisher for e-mail")
	s.StringVar(&m.Publisher.Address, "address", "", "`ADDRESS` of the publisher's key, if the key is not here: 0x and 40 hex digits")
	f.key.add(c)
	s.StringVar(&f.main, "main", "", "`FILE` that is run: .js, .mjs, .ts or .py (default index or main, or the only one)")
	s.StringArrayVar(&f.files, "file", nil, "`FILE` of the skill, as a path below DIR (repeatable; default all)")
	s.IntVar(&m.Sandbox.MemoryMb, "memory-mb", skill.DefaultMemoryMb, fmt.Sprintf("memory limit in MiB, at most %d", skill.MaxMemoryMb))
	s.IntVar(&m.Sandbox.TimeoutMs, "timeout-ms", skill.DefaultTimeoutMs, fmt.Sprintf("wall clock limit in milliseconds, from %d to %d", skill.MinTimeoutMs, skill.MaxTimeoutMs))
	s.BoolVar(&m.Sandbox.AllowSpawn, "allow-spawn", false, "it may start processes")
	s.BoolVar(&m.Permissions.NetworkAccess, "network-access", false, "it may reach the API of whoever runs it, and nothing else")
	s.BoolVar(&m.Permissions.FilesystemAccess, "filesystem-access", false, "it asks for files; this is shown, and gives it none")
	s.StringArrayVar(&m.Permissions.TxActions, "tx-action", nil, "`ACTION` that it asks for: "+strings.Join(skill.TxActions, ", ")+" (repeatable)")
	s.IntSliceVar(&f.chains, "chain", nil, "`NUMBER` of a chain that it is for (repeatable)")
	s.BoolVar(&f.force, "force", false, "write over a manifest that is there")
	return c
}

func (a *app) skillInit(f *skillInit, args []string) error {
	dir, file, err := skillDir(args)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) && !f.force {
		return usagef("there is a %s already; --force writes over it", file)
	}
	m := f.manifest
	names := f.files
	if len(names) == 0 {
		if names, err = skill.ListFiles(dir); err != nil {
			return err
		}
	}
	if names, err = mainFirst(names, f.main); err != nil {
		return err
	}
	if m.Files, err = skill.HashFiles(dir, names); err != nil {
		return err
	}
	for _, chain := range f.chains {
		m.Permissions.Chains = append(m.Permissions.Chains, int64(chain))
	}
	if m.Publisher.Address == "" { // before a key is made: what is wrong is wrong without one
		m.Publisher.Address = "0x" + strings.Repeat("0", 40)
	}
	if _, err := skill.ParseDraft(m.Text()); err != nil {
		return initFaults(err)
	}
	key, ok, err := f.key.key(a)
	switch {
	case err != nil:
		return err
	case ok:
		m.Publisher.Address = key.Address()
	case f.manifest.Publisher.Address == "":
		return usagef("whose skill is it? --new-key FILE makes a key, --key FILE names one, --address is the address of one that is elsewhere")
	}
	contents, _, err := skill.ReadFiles(dir, m.Files)
	if err != nil {
		return err
	}
	if err := noKeyIn(contents, m.Publisher.Address); err != nil {
		return err
	}
	if err := atomicfile.Write(file, m.Text(), 0o644); err != nil {
		return err
	}
	if f.key.create != "" {
		a.errorf("made the key %s of %s: whoever has it can publish in this name; keep it out of the skill's directory", f.key.create, m.Publisher.Address)
	}
	a.errorf("wrote %s, files: %d; sign it with silk skill sign --key FILE", file, len(m.Files))
	return nil
}

// initFlags are the flags of what a manifest says.
var initFlags = map[string]string{
	"/name": "--name", "/publisher/name": "--publisher", "/publisher/contact": "--contact", "/publisher/address": "--address",
	"/sandbox/memoryMb": "--memory-mb", "/sandbox/timeoutMs": "--timeout-ms",
}

// initFaults is what is wrong with a new manifest in the words of the command line.
func initFaults(err error) error {
	var invalid *skill.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	var texts []string
	for _, f := range invalid.Faults {
		where := initFlags[f.Path]
		switch {
		case strings.HasPrefix(f.Path, "/permissions/txActions"):
			where = "--tx-action"
		case strings.HasPrefix(f.Path, "/permissions/chains"):
			where = "--chain"
		}
		texts = append(texts, or(where, printable(f.Path))+" "+f.Message)
	}
	return usagef("%s", strings.Join(texts, "; "))
}

// mainFirst puts the file that is run before the others.
func mainFirst(names []string, main string) ([]string, error) {
	if main == "" {
		var code []string
		for _, n := range names {
			if slices.Contains(skillExtensions, path.Ext(n)) {
				code = append(code, n)
			}
		}
		for _, base := range []string{"index", "main"} {
			for _, n := range code {
				if main == "" && strings.TrimSuffix(n, path.Ext(n)) == base {
					main = n
				}
			}
		}
		switch {
		case main != "":
		case len(code) == 0:
			return nil, usagef("there is no program: a file with the extension %s", strings.Join(skillExtensions, ", "))
		case len(code) == 1:
			main = code[0]
		default:
			return nil, usagef("which file is run? Name it with --main: %s", strings.Join(code, ", "))
		}
	}
	i := slices.Index(names, main)
	if i < 0 {
		return nil, usagef("--main %s is none of the files: %s", printable(main), strings.Join(names, ", "))
	}
	return slices.Concat([]string{main}, names[:i], names[i+1:]), nil
}

// skillExtensions are those of a program that a skill can be.
var skillExtensions = []string{".js", ".mjs", ".ts", ".py"}

func (a *app) skillValidateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate [DIR]", Short: "Check a manifest, its signature, its files and its code", Args: needArgs(0, 1, "one directory at most"),
		Long: `Check a skill as silk skill register does, in the same order, and keep nothing: schema, signature, hashes of the files, scan of the
code. DIR may be the manifest itself. Exit status 1 if anything is wrong.`,
		Example: "  silk skill validate .\n  silk skill validate bot/manifest.json --json",
		RunE: func(_ *cobra.Command, args []string) error {
			dir, file, err := skillDir(args)
			if err != nil {
				return err
			}
			text, err := readManifest(file)
			if err != nil {
				return err
			}
			s, r, err := skill.Check(text, dir)
			if err != nil {
				return err
			}
			r.ManifestHash = s.Hash
			return a.printSkillResult(r, r.Name+" is good; its manifest is "+r.ManifestHash)
		},
	}
}

// skillHash is the JSON of `silk skill hash`.
type skillHash struct {
	ManifestHash string       `json:"manifestHash"`
	Files        []skill.File `json:"files"` // as they are
	Changed      []string     `json:"changed"`
}

func (a *app) skillHashCommand() *cobra.Command {
	var write bool
	c := &cobra.Command{
		Use: "hash [DIR]", Short: "Print the hash of a manifest and of its files", Args: needArgs(0, 1, "one directory at most"),
		Long: `Print the hash of a manifest, which is what its signature is over (Keccak-256 of the canonical JSON without the signature), and the hashes
of its files as they are. Exit status 1 if they are not what the manifest says, unless --write puts them there.`,
		Example: "  silk skill hash .\n  silk skill hash . --write && silk skill sign . --key ../ann.key",
		RunE:    func(_ *cobra.Command, args []string) error { return a.skillHash(args, write) },
	}
	c.Flags().BoolVar(&write, "write", false, "write the hashes of changed files into the manifest, which then needs a new signature")
	return c
}

func (a *app) skillHash(args []string, write bool) error {
	dir, file, err := skillDir(args)
	if err != nil {
		return err
	}
	m, err := readDraft(file)
	if err != nil {
		return err
	}
	var names []string
	for _, f := range m.Files {
		names = append(names, f.Path)
	}
	h := skillHash{Changed: []string{}}
	if h.Files, err = skill.HashFiles(dir, names); err != nil {
		return err
	}
	for i, f := range h.Files {
		if f != m.Files[i] {
			h.Changed = append(h.Changed, f.Path)
		}
	}
	if write && len(h.Changed) > 0 {
		m.Files, m.Signature = h.Files, ""
		if err := atomicfile.Write(file, m.Text(), 0o644); err != nil {
			return err
		}
	}
	h.ManifestHash = m.Hash()
	if err := a.printSkillHash(h); err != nil {
		return err
	}
	switch {
	case len(h.Changed) > 0 && !write:
		return findingf("not what the manifest says: %s; silk skill hash --write puts it right", strings.Join(h.Changed, ", "))
	case len(h.Changed) > 0:
		a.errorf("wrote %s, which has no signature now; sign it with silk skill sign --key FILE", file)
	}
	return nil
}

func (a *app) printSkillHash(h skillHash) error {
	if a.json {
		return a.printJSON(h)
	}
	if err := a.print("%s  %s", h.ManifestHash, skill.FileName); err != nil {
		return err
	}
	for _, f := range h.Files {
		if err := a.print("%s  %s", f.SHA256, f.Path); err != nil {
			return err
		}
	}
	return nil
}

// noKeyIn keeps a publisher from publishing the key with the skill.
func noKeyIn(contents []skill.Content, address string) error {
	if name, ok := skill.KeyAmong(contents, address); ok {
		return findingf("%s is the private key of %s, which everybody who gets the skill would have: move it out of the skill's directory, then make the manifest anew with silk skill init --force", printable(name), address)
	}
	return nil
}

func (a *app) skillSignCommand() *cobra.Command {
	var key keyFlags
	c := &cobra.Command{
		Use: "sign [DIR]", Short: "Sign a manifest", Args: needArgs(0, 1, "one directory at most"),
		Long: `Sign a manifest with the publisher's key: secp256k1 over the Keccak-256 of its canonical JSON, as Ethereum's libraries do without their
prefix for messages. The publisher's address becomes that of the key. The files must be what the manifest says.`,
		Example: "  silk skill sign . --key ../ann.key\n  SILK_SKILL_KEY=$(pass show skill-key) silk skill sign .",
		RunE:    func(_ *cobra.Command, args []string) error { return a.skillSign(&key, args) },
	}
	key.add(c)
	return c
}

func (a *app) skillSign(f *keyFlags, args []string) error {
	dir, file, err := skillDir(args)
	if err != nil {
		return err
	}
	m, err := readDraft(file)
	if err != nil {
		return err
	}
	contents, mismatches, err := skill.ReadFiles(dir, m.Files)
	if err != nil {
		return err
	}
	if len(mismatches) > 0 {
		if err := a.skillFindings(skill.Result{HashMismatches: mismatches}); err != nil {
			return err
		}
		return findingf("files are not what the manifest says; where they were changed on purpose, silk skill hash --write says so in the manifest; where one came or went, silk skill init --force makes the manifest anew")
	}
	key, ok, err := f.key(a)
	if err != nil {
		return err
	}
	if !ok {
		return usagef("sign with which key? --key FILE names one, --new-key FILE makes one, $%s has one", skillKeyVariable)
	}
	if err := noKeyIn(contents, key.Address()); err != nil {
		return err
	}
	if !strings.EqualFold(m.Publisher.Address, key.Address()) {
		a.errorf("the manifest names another key, %s: it is %s now", m.Publisher.Address, key.Address())
	}
	m.Sign(key)
	if err := atomicfile.Write(file, m.Text(), 0o644); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]string{"name": m.Name, "manifestHash": m.Hash(), "publisherAddress": m.Publisher.Address, "signature": m.Signature})
	}
	a.errorf("signed %s as %s", file, m.Publisher.Address)
	return a.print("%s", m.Hash())
}

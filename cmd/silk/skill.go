package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/internal/secret"
	"github.com/silk-sandbox/silk/skill"
)

const skillExample = `  silk skill init . --name price-check --publisher Ann --contact ann@example.org --new-key ../ann.key
  silk skill sign . --key ../ann.key
  silk skill register .
  silk skill run price-check`

func (a *app) skillCommand() *cobra.Command {
	return group("skill", "Make, sign, register and run skills: programs with a signed manifest", skillExample,
		a.skillInitCommand(), a.jsonFlag(a.skillValidateCommand()), a.jsonFlag(a.skillHashCommand()), a.jsonFlag(a.skillSignCommand()),
		a.jsonFlag(a.skillRegisterCommand()), a.jsonFlag(a.skillListCommand()), a.jsonFlag(a.skillShowCommand()), a.jsonFlag(a.skillRevokeCommand()), a.skillRunCommand(), a.jsonFlag(a.skillExplainCommand()), a.jsonFlag(a.skillSelftestCommand()))
}

// skillKeyVariable has a key in place of a file.
const skillKeyVariable = "SILK_SKILL_KEY"

// keyFlags say where the key of a publisher is. It is no flag itself: everybody on the host can read the command lines of others.
type keyFlags struct{ file, create string }

func (f *keyFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.file, "key", "", "`FILE` with the publisher's key, 64 hex digits, that only its owner can read (default: the key itself in $"+skillKeyVariable+")")
	c.Flags().StringVar(&f.create, "new-key", "", "`FILE` to write a new key into; it must not be there")
}

// key is the key that the user named, or a new one. ok is false if none was named.
func (f *keyFlags) key(a *app) (key skill.Key, ok bool, err error) {
	switch text := a.env(skillKeyVariable); {
	case f.file != "" && f.create != "":
		return key, false, usagef("both --key and --new-key are given; which one is to sign?")
	case f.create != "":
		if key, err = skill.NewKey(); err == nil {
			err = skill.WriteKey(f.create, key)
		}
		return key, err == nil, err
	case f.file != "":
		key, err = skill.ReadKey(f.file)
		return key, err == nil, err
	case text != "":
		if key, err = skill.ParseKey(secret.New(text)); err != nil {
			return key, false, usagef("%s: %v", skillKeyVariable, err)
		}
		return key, true, nil
	}
	return key, false, nil
}

// skillDir is the directory of a skill and the file with its manifest, of what the user named: either of them, or nothing.
func skillDir(args []string) (dir, manifest string, err error) {
	named := "."
	if len(args) > 0 {
		named = args[0]
	}
	path, info, err := locate(named)
	if err != nil {
		return "", "", err
	}
	if info.IsDir() {
		return path, filepath.Join(path, skill.FileName), nil
	}
	return filepath.Dir(path), path, nil
}

// readManifest reads the text of a manifest.
func readManifest(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, missingf("there is no %s; silk skill init makes one", path)
	case err != nil:
		return nil, fmt.Errorf("read manifest: %w", err)
	case !info.Mode().IsRegular() || info.Size() > skill.MaxManifestBytes:
		return nil, usagef("%s is no manifest: a file of at most %d bytes", path, skill.MaxManifestBytes)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	return text, nil
}

// readDraft reads a manifest that may have no signature yet.
func readDraft(path string) (skill.Manifest, error) {
	text, err := readManifest(path)
	if err != nil {
		return skill.Manifest{}, err
	}
	m, err := skill.ParseDraft(text)
	if err != nil {
		return m, invalidManifest(path, err)
	}
	return m, nil
}

// invalidManifest is what is wrong with a manifest, a line for each fault.
func invalidManifest(path string, err error) error {
	var invalid *skill.InvalidError
	if !errors.As(err, &invalid) {
		return err
	}
	lines := []string{fmt.Sprintf("%s is not valid:", path)}
	for _, f := range invalid.Faults {
		lines = append(lines, "  "+faultLine(f))
	}
	return findingf("%s", strings.Join(lines, "\n"))
}

// faultLine is a fault for people. What it is about is what somebody wrote.
func faultLine(f skill.Fault) string {
	if f.Path == "" {
		return "the manifest " + f.Message
	}
	return printable(f.Path) + " " + f.Message
}

// printSkillResult says what came of checking or registering a skill. It is an error if anything is wrong with it.
func (a *app) printSkillResult(r skill.Result, good string) error {
	if a.json {
		if err := a.printJSON(r); err != nil {
			return err
		}
	} else if err := a.skillFindings(r); err != nil {
		return err
	}
	if r.Error != "" {
		return findingf("%s: %s", or(r.Name, "the manifest"), skillErrors[r.Error]+" ("+r.Error+")")
	}
	if !a.json {
		a.errorf("%s", good)
	}
	return nil
}

// skillErrors are the published errors in words.
var skillErrors = map[string]string{
	skill.SchemaFailed:    "the manifest is not valid",
	skill.SignatureFailed: "the signature is not the publisher's",
	skill.HashMismatched:  "files are not what the manifest says",
	skill.ScanFailed:      "the code has what the manifest does not permit",
	skill.Duplicate:       "a skill of that name was registered before; a new version takes a new name (--name of silk skill init)",
	skill.NotFound:        "there is no such skill",
}

// skillFindings prints what was found, the worst first.
func (a *app) skillFindings(r skill.Result) error {
	var rows [][]string
	for _, f := range r.ValidationErrors {
		if f == (skill.Fault{Path: "/signature", Message: "is missing"}) {
			f.Message += ": silk skill sign --key FILE makes it"
		}
		rows = append(rows, []string{"error", skill.FileName, faultLine(f)})
	}
	for _, m := range r.HashMismatches {
		what := "has the hash " + m.Actual + ", not " + m.Expected
		if m.Message != "" {
			what = "cannot be read: " + printable(m.Message)
		}
		rows = append(rows, []string{"error", printable(m.Path), what})
	}
	for _, f := range r.ScanFindings {
		rows = append(rows, []string{string(f.Severity), fmt.Sprintf("%s:%d", printable(f.File), f.Line), f.Rule + ": " + printable(f.Message)})
	}
	if len(rows) == 0 {
		return nil
	}
	return a.table(append([][]string{{"SEVERITY", "WHERE", "WHAT"}}, rows...))
}

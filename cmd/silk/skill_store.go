package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/skill"
	"github.com/silk-sandbox/silk/store"
	"github.com/silk-sandbox/silk/workspace"
)

func (a *app) skillRegisterCommand() *cobra.Command {
	var image string
	c := &cobra.Command{
		Use: "register [DIR]", Short: "Check a skill and keep it, so that it can be run", Args: needArgs(0, 1, "one directory at most"),
		Long: `Check a skill - schema, signature, hashes of the files, scan of the code - and keep its manifest, so that it can be run by its name. The
files stay where they are, and are compared with the manifest before each run. On a server (--server) DIR is a directory of the
server's host, inside a store that its owner listed (grants: stores:). A name can be registered once. Exit status 1 if it is refused.

With --image the skill runs on that image of the store, by the command that the image has, if it has one, and by the interpreter of its first file
else. The image's digest is kept with the skill, under the tag iscl-skill-NAME:latest; if that ever leads to another image, the skill is not run.`,
		Example: "  silk skill register .\n  silk skill register bot --json\n  silk skill register . --image price-check:v1",
		RunE: func(_ *cobra.Command, args []string) error {
			dir, file, err := skillDir(args)
			if err != nil {
				return err
			}
			text, err := readManifest(file)
			if err != nil {
				return err
			}
			r, err := a.skillRegister(text, dir, image)
			if err != nil {
				return err
			}
			return a.printSkillResult(r, "registered "+r.Name+"; its manifest is "+r.ManifestHash)
		},
	}
	c.Flags().StringVar(&image, "image", "", "`REF` of an image, a tag or digest, that the skill runs on (default the lab image of its language)")
	return c
}

func (a *app) skillRegister(text []byte, dir, ref string) (skill.Result, error) {
	from := skill.Origin{Dir: dir}
	switch {
	case a.serverURL() != "" && ref != "":
		return skill.Result{}, usagef("a skill with an image of its own is registered on the host that has the image; leave --server or --image out")
	case a.serverURL() != "":
		return a.registerOnServer(text, dir)
	case ref != "":
		h, err := a.openHost(false)
		if err != nil {
			return skill.Result{}, err
		}
		defer h.close()
		if from, err = h.skillOrigin(dir, ref); err != nil {
			return skill.Result{}, err
		}
	}
	db, err := a.tokenStore(true)
	if err != nil {
		return skill.Result{}, err
	}
	defer db.Close()
	return skill.Register(a.ctx, db, text, from, time.Now())
}

func (a *app) skillListCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use: "ls", Short: "List the skills", Args: needArgs(0, 0, "no arguments"),
		Example: "  silk skill ls\n  silk skill ls --all --json",
		RunE: func(*cobra.Command, []string) error {
			list, err := a.skillList(all)
			if err != nil {
				return err
			}
			return a.printSkills(list)
		},
	}
	c.Flags().BoolVar(&all, "all", false, "those that are revoked too; a server does not list them")
	return c
}

func (a *app) skillList(all bool) ([]skill.Registered, error) {
	if a.serverURL() != "" {
		if all {
			return nil, usagef("a server lists the skills that are active; leave --all out")
		}
		return a.skillsOnServer()
	}
	db, err := a.tokenStore(false)
	if errors.Is(err, errNoRuns) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return skill.List(a.ctx, db, all)
}

func (a *app) printSkills(list []skill.Registered) error {
	if a.json {
		if list == nil {
			list = []skill.Registered{}
		}
		return a.printJSON(list)
	}
	rows := [][]string{{"NAME", "PUBLISHER", "ADDRESS", "STATUS", "REGISTERED", "MANIFEST"}}
	for _, s := range list {
		rows = append(rows, []string{s.Name, printable(s.PublisherName), s.PublisherAddress, string(s.Status), timeText(s.RegisteredAt), s.ManifestHash})
	}
	return a.table(rows)
}

func (a *app) skillShowCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a skill: who published it, what it may do, and its files", Args: needArgs(1, 1, "one skill"),
		Example: "  silk skill show price-check\n  silk skill show price-check --json",
		RunE: func(_ *cobra.Command, args []string) error {
			s, err := a.skillNamed(args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(s)
			}
			return a.printSkill(s)
		},
	}
}

func (a *app) skillNamed(name string) (skill.Registered, error) {
	if a.serverURL() != "" {
		return a.skillOnServer(name)
	}
	var s skill.Registered
	err := a.withSkills(name, func(db *store.DB) (err error) {
		s, err = skill.Get(a.ctx, db, name)
		return err
	})
	return s, err
}

// withSkills does something with a skill of this host.
func (a *app) withSkills(name string, do func(db *store.DB) error) error {
	db, err := a.tokenStore(false)
	if err == nil {
		defer db.Close()
		err = do(db)
	}
	switch {
	case errors.Is(err, errNoRuns), errors.Is(err, skill.ErrNotFound):
		return missingf("there is no skill %s (%s); silk skill ls lists them", printable(name), skill.NotFound)
	case errors.Is(err, skill.ErrRevoked):
		return findingf("the skill %s is revoked", name)
	}
	return err
}

func (a *app) printSkill(s skill.Registered) error {
	rows := [][]string{
		{"name", s.Name},
		{"status", string(s.Status)},
		{"publisher", printable(s.PublisherName) + " " + s.PublisherAddress},
		{"manifest", s.ManifestHash},
		{"registered", timeText(s.RegisteredAt)},
	}
	if s.RevokedAt != nil {
		rows = append(rows, []string{"revoked", timeText(*s.RevokedAt)})
	}
	if s.Dir != "" {
		rows = append(rows, []string{"directory", printable(s.Dir)})
	}
	if s.Image != "" {
		rows = append(rows, []string{"image", s.Image})
	}
	var m skill.Manifest
	if err := json.Unmarshal(s.Manifest, &m); err != nil {
		return findingf("the manifest of %s cannot be read: %v", s.Name, err)
	}
	rows = append(rows,
		[]string{"contact", printable(m.Publisher.Contact)},
		[]string{"permissions", skillOf(skill.Skill{Manifest: m}, "").May()},
		[]string{"limits", limitsText(m.Sandbox)},
	)
	for i, f := range m.Files {
		what := ""
		if i == 0 {
			what = "files"
		}
		rows = append(rows, []string{what, f.SHA256 + " " + printable(f.Path)})
	}
	return a.table(rows)
}

func (a *app) skillRevokeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "End a skill: it is not run any more", Args: needArgs(1, 1, "one skill"),
		Long:    "End a skill: it is not run any more. It stays in the list of all, and its name stays taken.",
		Example: "  silk skill revoke price-check",
		RunE: func(_ *cobra.Command, args []string) error {
			if err := a.skillRevoke(args[0]); err != nil {
				return err
			}
			if a.json {
				return a.printJSON(map[string]any{"revoked": true, "name": args[0]})
			}
			a.errorf("skill %s is revoked", args[0])
			return nil
		},
	}
}

func (a *app) skillRevoke(name string) error {
	if a.serverURL() != "" {
		return a.revokeOnServer(name)
	}
	return a.withSkills(name, func(db *store.DB) error { return skill.Revoke(a.ctx, db, name, time.Now()) })
}

// limitsText is what a manifest limits, for people.
func limitsText(s skill.Sandbox) string {
	spawn := "no processes"
	if s.AllowSpawn {
		spawn = "processes"
	}
	return fmt.Sprintf("%d MiB, %g s, half a processor, %s", s.MemoryMb, float64(s.TimeoutMs)/1000, spawn)
}

// skillDir is where a directory leads that somebody else names as that of a skill, if it lies in a store.
func (h *host) skillDir(path string) (string, bool) {
	if !filepath.IsAbs(path) {
		return "", false
	}
	dir, err := workspace.CheckMount(path, workspace.Root+"/skill", h.config.grants.Stores)
	if err != nil {
		return "", false
	}
	info, err := os.Stat(dir)
	return dir, err == nil && info.IsDir()
}

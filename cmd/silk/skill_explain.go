package main

import (
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/driver/docker"
	"github.com/silk-sandbox/silk/internal/atomicfile"
	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/skill"
)

func (a *app) skillExplainCommand() *cobra.Command {
	var asDocker bool
	var seccomp, apiURL string
	c := &cobra.Command{
		Use: "explain NAME --docker", Short: "Print the docker command line that comes nearest to a skill's sandbox", Args: needArgs(1, 1, "one skill"),
		Long: `Print the docker command line that comes nearest to the sandbox that a skill gets on the docker driver, for people who check by hand what an
engine is asked for. It runs nothing. The seccomp profile that it names is written by --seccomp. What silk adds in the container - the launcher, Landlock,
the filter against a second program - and whoever watches it is not in it: the command is weaker than silk skill run --driver docker. Its image must be
in the engine: silk image export IMAGE - | docker load puts it there.`,
		Example: "  silk skill explain price-check --docker --seccomp seccomp.json\n  silk skill explain price-check --docker --json",
		RunE: func(_ *cobra.Command, args []string) error {
			if !asDocker {
				return usagef("say which engine: --docker is the only one")
			}
			return a.skillExplain(args[0], apiURL, seccomp)
		},
	}
	c.Flags().BoolVar(&asDocker, "docker", false, "for docker's client")
	c.Flags().StringVar(&seccomp, "seccomp", "", "`FILE` to write the seccomp profile into (default: it is not written)")
	c.Flags().StringVar(&apiURL, "api-url", "", "`URL` of the service that a skill with networkAccess reaches, as for silk skill run")
	return c
}

func (a *app) skillExplain(name, apiURL, seccomp string) error {
	if !skill.IsName(name) {
		return usagef("%s is no name of a skill: 1 to 64 of a-z, 0-9 and -", printable(name))
	}
	db, err := a.tokenStore(true)
	if err != nil {
		return err
	}
	defer db.Close()
	h, err := a.openHost(false)
	if err != nil {
		return err
	}
	defer h.close()
	req, err := loadSkill(a.ctx, db, policy.Request{Client: policy.ClientCLI}, name, or(apiURL, h.config.skills.apiURL))
	if err == nil {
		err = h.skillImage(req.Skill)
	}
	if err != nil {
		return err
	}
	row, err := skill.Get(a.ctx, db, name)
	if err != nil {
		return err
	}
	plan, err := h.decide(req)
	if err != nil {
		return err
	}
	file := or(seccomp, "seccomp.json")
	spec, err := run.SpecOf(plan)
	if err != nil {
		return err
	}
	image := plan.Image
	if req.Skill.Image != "" {
		image = skillTag(name) // which an engine takes, and no digest of silk's
	}
	args, profile, err := docker.Explain(spec, image, row.Dir, file)
	if err != nil {
		return err
	}
	if seccomp != "" {
		if err := atomicfile.Write(seccomp, append(profile, '\n'), 0o644); err != nil {
			return err
		}
	}
	if plan.Egress != nil {
		a.errorf("the skill reaches %s, which docker's client has no flag for: with --network none nothing does", plan.Hosts[0])
	}
	if a.json {
		return a.printJSON(map[string]any{"args": args, "seccomp": string(profile)})
	}
	a.errorf("the engine needs the image: silk image export %s - | docker load", image)
	if seccomp == "" {
		if _, err := os.Stat(filepath.Clean(file)); err != nil {
			a.errorf("%s is not there; --seccomp %s writes it", file, file)
		}
	}
	return a.print("%s", run.CommandLine(args))
}

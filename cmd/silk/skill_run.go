package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/silk-sandbox/silk/policy"
	"github.com/silk-sandbox/silk/run"
	"github.com/silk-sandbox/silk/skill"
	"github.com/silk-sandbox/silk/store"
)

// skillRun are the flags of `silk skill run`.
type skillRun struct {
	runFlags

	apiURL     string
	jsonOutput bool
}

func (a *app) skillRunCommand() *cobra.Command {
	var f skillRun
	c := &cobra.Command{
		Use: "run NAME [-- ARGV...]", Short: "Run a registered skill in a sandbox", Args: cobra.MinimumNArgs(1),
		Long: `Run a registered skill in a sandbox of its own, as its manifest says: its memory and time, half a processor, threads but no processes unless
it has allowSpawn, its files read-only in /workspace, nothing that can be written but /tmp, and no network. With networkAccess it reaches one
service, whose URL it finds in ISCL_API_URL: that of --api-url, or of skills: api_url: in the configuration. Any attempt to reach something
else ends it. Manifest, signature and files are checked again before each run; what was changed since it was registered is refused.

Exit status: the program's own, 128+s after signal s, 137 timeout or out of memory, 159 policy violation, 126 denied, 130 canceled,
125 silk, the host or the command line is at fault.`,
		Example: "  silk skill run price-check\n  silk skill run price-check --json-output --json\n  silk skill run bot --api-url http://127.0.0.1:3100 -- --once",
		RunE: func(cmd *cobra.Command, args []string) error {
			name, argv, err := operands(cmd, args)
			if err != nil {
				return err
			}
			return a.skillRun(&f, name, argv)
		},
	}
	s := c.Flags()
	s.SortFlags = false
	s.StringVar(&f.apiURL, "api-url", "", "`URL` of the service that a skill with networkAccess reaches (default skills: api_url: of the configuration; else it reaches none)")
	s.StringVar(&f.stdin, "stdin", "", "`FILE` to pass as stdin, - for silk's own (default: stdin is at its end)")
	s.BoolVar(&f.jsonOutput, "json-output", false, "the skill must print one JSON value on stdout: with --json it stands in the answer; anything else is exit status 1")
	s.StringVar(&f.driver, "driver", "", "`DRIVER` that isolates the run (default auto)")
	s.BoolVar(&f.requireWatch, "require-watch", false, "refuse to run unless the host's kernel watches the sandbox besides (eBPF; needs root)")
	s.BoolVar(&a.json, "json", false, "print one JSON object at the end, and nothing else on stdout: success, exitCode, stdout, stderr, durationMs, and the outcome as silk run has it")
	return c
}

func (a *app) skillRun(f *skillRun, name string, argv []string) error {
	if a.serverURL() != "" {
		return usagef("a skill runs on the host that has it; leave --server out")
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(runGCPercent)
	}
	skills, err := a.tokenStore(true) // first: where servers share it, their executable takes over
	if err != nil {
		return err
	}
	defer skills.Close()
	h, err := a.openHost(f.requireWatch)
	if err != nil {
		return err
	}
	engine, err := a.engine(h)
	if err != nil {
		return err
	}
	deliveries, err := a.startDeliveries(h)
	if err != nil {
		return err
	}
	closeEngine := sync.OnceValue(engine.Leave)
	defer closeEngine() // the error of the regular way out is reported below

	req, err := a.skillRequest(h, skills, f, name, argv)
	if err == nil {
		err = h.knownDriver(f.driver)
	}
	var s *streams
	if err == nil {
		keep := a.json
		a.json = a.json || f.jsonOutput // stdout is looked at before anybody sees it
		s, err = a.streams(&f.runFlags, &req)
		a.json = keep
	}
	var outcome run.Outcome
	var lost error
	if err != nil {
		_, reason := classify(err)
		outcome, err = engine.Refuse(a.ctx, req, run.IO{}, reason, err)
	} else {
		defer s.close()
		s.awaited(a)
		outcome, err = engine.Run(s.ctx, req, s.io)
		s.close()
		lost = s.lost
	}
	plan, _ := h.decide(req) // as the engine did; the outcome has its refusal
	answer := newSkillAnswer(outcome, req.Skill, f.jsonOutput)
	unsaid := a.sayAnswer(f, answer, told{plan: plan, alerted: !h.config.alerts.quiet})
	deliveries.finish(outcome)
	if err = errors.Join(err, closeEngine()); err != nil && (outcome.Message == "" || !strings.Contains(err.Error(), outcome.Message)) {
		a.errorf("after the run: %v", err) // what the outcome does not say already
	}
	if outcome.Kind == run.OK && answer.OutputError != "" {
		return &endError{1}
	}
	if outcome.Kind == run.Timeout {
		return &endError{answer.ExitCode}
	}
	return exitAs(outcome, err, unsaid, lost)
}

// skillRequest loads a skill and makes the request of its run. On error it is what is known, for the record.
func (a *app) skillRequest(h *host, skills *store.DB, f *skillRun, name string, argv []string) (policy.Request, error) {
	req := policy.Request{
		Client: policy.ClientCLI, Args: argv, HasStdin: f.stdin != "", Driver: f.driver, RequireWatch: f.requireWatch, Skill: &policy.Skill{Name: name},
	}
	if !skill.IsName(name) {
		return req, usagef("%s is no name of a skill: 1 to 64 of a-z, 0-9 and -", printable(name))
	}
	req, err := loadSkill(a.ctx, skills, req, name, or(f.apiURL, h.config.skills.apiURL))
	if err != nil {
		return req, err
	}
	if req.Skill.NetworkAccess && req.Skill.API == "" {
		a.errorf("the skill %s may reach a service, and there is none for it: --api-url, or skills: api_url: in the configuration, names it", name)
	}
	return req, h.skillImage(req.Skill)
}

// loadSkill makes req the run of a skill, which is checked once more. What is wrong with it is a refusal.
func loadSkill(ctx context.Context, db *store.DB, req policy.Request, name, apiURL string) (policy.Request, error) {
	req.Skill = &policy.Skill{Name: name}
	s, err := skill.Load(ctx, db, name)
	if err != nil {
		return req, refusedSkill(name, err)
	}
	req.Skill = skillOf(s, apiURL)
	for i, file := range s.Files {
		if i == 0 {
			req.Code = &policy.Code{Name: file.Path, Bytes: file.Bytes, SHA256: s.Manifest.Files[i].SHA256}
			continue
		}
		req.Uploads = append(req.Uploads, policy.Upload{Name: file.Path, Bytes: file.Bytes, SHA256: s.Manifest.Files[i].SHA256, Mode: 0o444})
	}
	return req, nil
}

// refusedSkill is why a skill is not run, as a refusal where that is what it is.
func refusedSkill(name string, err error) error {
	var tampered *skill.TamperedError
	switch {
	case errors.As(err, &tampered):
		return &policy.Denial{Rule: tampered.Result.Error, Detail: tampered.Error(), Fix: "put back what was registered, or publish it under another name"}
	case errors.Is(err, skill.ErrRevoked):
		return &policy.Denial{Rule: "skill_revoked", Detail: "the skill " + name + " is revoked", Fix: "publish it under another name"}
	case errors.Is(err, skill.ErrNotFound):
		return missingf("there is no skill %s (%s); silk skill ls lists them", name, skill.NotFound)
	}
	return err
}

// skillOf is what policy decides a skill's run by.
func skillOf(s skill.Skill, apiURL string) *policy.Skill {
	m := s.Manifest
	return &policy.Skill{
		Name: m.Name, Manifest: s.Hash, Publisher: m.Publisher.Address, MemoryMb: m.Sandbox.MemoryMb, TimeoutMs: m.Sandbox.TimeoutMs, AllowSpawn: m.Sandbox.AllowSpawn,
		NetworkAccess: m.Permissions.NetworkAccess, FilesystemAccess: m.Permissions.FilesystemAccess, TxActions: m.Permissions.TxActions, Chains: m.Permissions.Chains,
		API: apiURL, Image: s.Image,
	}
}

// skillAnswer is the result of a skill's run in its published form, and the outcome as `silk run` has it.
type skillAnswer struct {
	Success    bool   `json:"success"`
	ExitCode   int    `json:"exitCode"` // always a number: 137 after a timeout or without memory, 159 after a violation, 128+s after signal s
	Stdout     string `json:"stdout"`   // bytes that are no text are U+FFFD, and whole in the outcome
	Stderr     string `json:"stderr"`
	DurationMs int64  `json:"durationMs"`

	SkillName    string `json:"skillName"`
	ManifestHash string `json:"manifestHash,omitempty"`

	Output      json.RawMessage `json:"output,omitempty"`      // with --json-output: stdout as the value that it is
	OutputError string          `json:"outputError,omitempty"` // or why it is none

	Outcome run.Outcome `json:"outcome"` // its channels without what stands above
}

// skillTimeout is the published exit code of a timeout.
const skillTimeout = 137

// skillExit is the published exit code.
func skillExit(o run.Outcome) int {
	if o.Kind == run.Timeout {
		return skillTimeout
	}
	return o.ExitStatus()
}

func newSkillAnswer(o run.Outcome, s *policy.Skill, jsonOutput bool) skillAnswer {
	a := skillAnswer{Success: o.Kind == run.OK, ExitCode: skillExit(o), DurationMs: o.WallMs, SkillName: s.Name, ManifestHash: s.Manifest}
	a.Stdout, o.Stdout = keptText(o.Stdout)
	a.Stderr, o.Stderr = keptText(o.Stderr)
	a.Outcome = o
	if !jsonOutput || !a.Success {
		return a
	}
	switch {
	case o.Stdout.Truncated:
		a.OutputError = "stdout is longer than what is kept of it"
	case o.Stdout.B64 != nil || !json.Valid([]byte(a.Stdout)):
		a.OutputError = "stdout is not one JSON value"
	default:
		a.Output = json.RawMessage(strings.TrimSpace(a.Stdout))
	}
	a.Success = a.OutputError == ""
	return a
}

// keptText is what was kept of a channel, and the rest of what is known of it.
func keptText(c run.Channel) (string, run.Channel) {
	switch {
	case c.Text != nil:
		text := *c.Text
		c.Text = nil
		return text, c
	case c.B64 != nil:
		data, _ := base64.StdEncoding.DecodeString(*c.B64) // our own
		return strings.ToValidUTF8(string(data), "\ufffd"), c
	}
	return "", c
}

// sayAnswer prints the end of a skill's run. An error is why it could not be printed; it has been said.
func (a *app) sayAnswer(f *skillRun, answer skillAnswer, t told) (err error) {
	switch {
	case a.json:
		err = a.printJSONLine(answer)
	case f.jsonOutput && answer.OutputError == "":
		_, err = a.out.Write([]byte(answer.Stdout))
		if err == nil {
			_, err = a.err.Write([]byte(answer.Stderr))
		}
	case f.jsonOutput:
		_, err = a.err.Write([]byte(answer.Stderr))
	}
	if text := sentence(answer.Outcome, t); text != "" {
		a.errorf("%s", a.bold(text))
	}
	if notes := limitNotes(answer.Outcome, t.plan.Limits); notes != "" {
		a.errorf("%s", notes)
	}
	if note := egressNote(answer.Outcome, t.plan); note != "" {
		a.errorf("%s", note)
	}
	if answer.OutputError != "" {
		a.errorf("%s; silk runs logs %s prints it", answer.OutputError, answer.Outcome.Run)
	}
	return err
}

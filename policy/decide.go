package policy

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/silk-sandbox/silk/profile"
)

// Workspace is the working directory of every run, the only place where a program may keep files.
const Workspace = "/workspace"

// Rules that a [Denial] names.
const (
	RuleTimeout   = "timeout"
	RuleMemory    = "memory"
	RuleCPUs      = "cpus"
	RuleProcesses = "processes"
	RuleDisk      = "disk" // workspace, /tmp and /dev/shm
	RuleOutput    = "output"
	RuleNetwork   = "network"
	RuleSecret    = "secret"
	RuleMount     = "mount"
	RuleSpawn     = "spawn"
	RuleIsolation = "isolation"
	RuleApproval  = "approval"
)

// ProfileFor names the profile that decides about req: the one that it names, else the one of its language, else
// lab:text, under which [Decide] takes only what may be a shell script.
func ProfileFor(req Request) string {
	if req.Profile != "" {
		return req.Profile
	}
	if l, ok := languageOf(req, profile.Profile{}); ok {
		return l.Profile
	}
	return "lab:text"
}

// Decide turns a request into a complete plan, or refuses it with a [*Denial], or says with a [*RequestError] that it
// makes no sense. prof must be the profile that [ProfileFor] names. A request that carries an approval is refused unless
// the approval is of its own plan, whether the plan takes one or not.
//
// A plan is never wider than prof, unless owner, the invoker of the local command line, or an approval of this very plan
// grants it; each grant stands in Plan.Grants. When nothing but an approval is missing, the plan is returned with the
// Denial, complete, so that its [Plan.Hash] can be shown to the owner. Decide does no I/O and reads no clock.
func Decide(req Request, prof profile.Profile, owner Grants) (Plan, error) {
	d := decision{req: req, prof: prof, owner: owner}
	d.plan = Plan{
		Profile:       prof.Name,
		Image:         prof.Image,
		Driver:        or(req.Driver, "auto"),
		Dir:           or(req.Cwd, Workspace),
		Hostname:      req.Hostname,
		HostDir:       req.Dir,
		Files:         append([]string{}, req.Files...),
		Stdin:         req.HasStdin && !req.Terminal,
		Terminal:      req.Terminal,
		NoSpawn:       req.NoSpawn || prof.NoSpawn,
		ReadOnly:      prof.ReadOnly,
		Deterministic: req.Deterministic,
		RequireWatch:  req.RequireWatch,
		Isolation:     req.Isolation,
		MakeDirs:      append([]string{}, prof.Dirs...),
		Ignore:        append([]string{}, prof.Ignore...),
		Hosts:         []string{},
		Mounts:        []Mount{},
		Grants:        []string{},
	}
	d.client()
	d.kept()
	d.held()
	d.names()
	d.mounts()
	d.hidden()
	d.overlays()
	d.surroundings()
	d.command()
	d.skill()
	d.environment()
	d.limits()
	d.network()
	d.isolation()
	return d.end()
}

// decision is one call of Decide: what is asked, what came of it so far, and everything that is wrong with it.
type decision struct {
	req   Request
	prof  profile.Profile
	owner Grants

	plan     Plan
	faults   []string
	denials  []*Denial
	approval []string // what only an approval can grant
}

func (d *decision) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

func (d *decision) deny(rule, fix, format string, args ...any) {
	d.denials = append(d.denials, &Denial{Rule: rule, Detail: fmt.Sprintf(format, args...), Fix: fix})
}

// words is what can be done, in the words of the door that the request came through: a flag, or a field.
func (d *decision) words(flag, field string) string {
	if d.req.Client == ClientCLI {
		return flag
	}
	return field
}

func (d *decision) end() (Plan, error) {
	if len(d.faults) > 0 {
		return Plan{}, &RequestError{Faults: d.faults}
	}
	if len(d.denials) > 0 {
		first := d.denials[0]
		first.Also = d.denials[1:]
		return Plan{}, first
	}
	if len(d.approval) == 0 && d.req.Approve == "" {
		return d.plan, nil
	}
	hash := d.plan.Hash()
	switch d.req.Approve {
	case hash:
		return d.plan, nil
	case "":
		return d.plan, &Denial{Rule: RuleApproval, Detail: "approval needed for " + list(d.approval), Fix: d.words("approve this very plan with --approve "+hash, "ask the owner to approve "+hash+d.grantsHosts())}
	}
	// Whoever approved another plan than this one has not seen what would run, even if nothing in it takes an approval.
	return d.plan, &Denial{Rule: RuleApproval, Detail: fmt.Sprintf("approval %q is not for this plan", d.req.Approve), Fix: "the hash of this plan is " + hash}
}

func (d *decision) client() {
	switch d.req.Client {
	case ClientCLI, ClientAPI, ClientNote, ClientMCP, ClientRuntime:
	default:
		d.fault("client %q is not one of cli, api, note, mcp, runtime", d.req.Client)
	}
}

// invokers says whether the request is that of who invokes silk on this host, who may do here what he likes anyway.
func (d *decision) invokers() bool { return d.req.Client == ClientCLI && !d.req.Foreign }

// widen grants something beyond the profile, or says who could. By the owner's configuration, which was asked before, it
// is not granted.
func (d *decision) widen(rule, what, ceiling string) {
	switch {
	case d.invokers():
		d.plan.Grants = append(d.plan.Grants, what+" (invoker)")
	case d.req.Client == ClientCLI, d.req.Client == ClientAPI, d.req.Client == ClientNote:
		d.plan.Grants = append(d.plan.Grants, what+" (approval)")
		d.approval = append(d.approval, fmt.Sprintf("%s, where profile %s allows %s", what, d.prof.Name, ceiling))
	default: // an unknown client gets what the most restricted one gets
		d.deny(rule, "ask for no more than "+ceiling, "%s is beyond profile %s, which allows %s", what, d.prof.Name, ceiling)
	}
}

func (d *decision) isolation() {
	switch d.req.Isolation {
	case "":
	case "microvm":
		d.machine()
	default:
		d.fault("isolation %q is not known; the only one is microvm", d.req.Isolation)
	}
	if !localName(d.plan.Driver) {
		d.fault("driver %q is not the name of a driver", d.req.Driver)
	}
}

// machines are the drivers whose sandboxes are virtual machines.
var machines = []string{"firecracker", "qemu"}

// machine sees to it that the driver is one of them. An emulated machine is never chosen for anybody.
func (d *decision) machine() {
	switch {
	case slices.Contains(machines, d.plan.Driver):
	case d.plan.Driver != "auto" && d.plan.Driver != "":
		d.deny(RuleIsolation, "leave the driver out, or isolation", "isolation microvm is asked for, and sandboxes of the driver %s are no virtual machines", d.plan.Driver)
	case d.owner.Machine == "":
		d.deny(RuleIsolation, "leave isolation out to run under gvisor, or ask for the driver qemu", "isolation microvm is asked for, and this host has no Firecracker that can be used")
	default:
		d.plan.Driver = d.owner.Machine
	}
}

// environment merges, from the weakest to the strongest: profile, terminal, determinism, request.
func (d *decision) environment() {
	env := maps.Clone(d.prof.Env)
	if env == nil {
		env = map[string]string{}
	}
	if d.req.Terminal {
		env["TERM"] = "xterm-256color"
	}
	if d.plan.Held != nil {
		env["PYTHONHASHSEED"] = strconv.FormatInt(d.plan.Held.Seed, 10)
	}
	for _, entry := range d.req.Env {
		key, value, err := parseEnv(entry)
		if err != nil {
			d.fault("%v", err)
			continue
		}
		env[key] = value
	}
	d.plan.Env = make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		d.plan.Env = append(d.plan.Env, key+"="+env[key])
	}
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

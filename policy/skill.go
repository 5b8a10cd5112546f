package policy

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/profile"
)

// Skill is what a manifest says about a run of its program. Whoever fills it has verified the manifest, and that the code and the
// uploads of the request are its files.
type Skill struct {
	Name      string `json:"name"`
	Manifest  string `json:"manifest"`  // its hash
	Publisher string `json:"publisher"` // its address

	MemoryMb         int      `json:"memory_mb"`
	TimeoutMs        int      `json:"timeout_ms"`
	AllowSpawn       bool     `json:"allow_spawn"`
	NetworkAccess    bool     `json:"network_access"`    // reaches API, and nothing else
	FilesystemAccess bool     `json:"filesystem_access"` // it widens nothing
	TxActions        []string `json:"tx_actions"`        // for whoever signs transactions
	Chains           []int64  `json:"chains"`            // as TxActions

	Image   string   `json:"image,omitempty"`   // digest of its own image; empty: that of its language
	Command []string `json:"command,omitempty"` // what its image says is to be run; nil: the interpreter of its first file

	API string `json:"api,omitempty"` // URL of the owner's API; empty: nothing is reachable
}

// Variables that a skill finds.
const (
	SkillAPIVariable  = "ISCL_API_URL"
	SkillNameVariable = "ISCL_SKILL_NAME"
)

// skillCPUs is half a processor for every skill.
const skillCPUs = 0.5

// skillLanguages are those of a skill's first file.
var skillLanguages = []string{"javascript", "typescript", "python"}

// SkillProfilePrefix is what is before a skill's name in that of its profile.
const SkillProfilePrefix = "skill:"

// ProfileName is the name of [Skill.Profile].
func (s Skill) ProfileName() string { return SkillProfilePrefix + s.Name }

// Profile is the profile of a skill, made of that of its language: limits from the manifest, of which none can be widened, nothing
// that can be written but /tmp, and no network but the one service, if there is one.
func (s Skill) Profile(base profile.Profile) (profile.Profile, error) {
	p := profile.Profile{
		Name: s.ProfileName(), Summary: "A skill of " + s.Publisher, Image: or(s.Image, base.Image), Language: base.Language, Network: profile.NetworkDeny,
		OnRefused: profile.RefusedKills, Limits: base.Limits, Env: maps.Clone(base.Env), Ignore: base.Ignore, NoSpawn: !s.AllowSpawn, ReadOnly: true,
	}
	p.Limits.Timeout = time.Duration(s.TimeoutMs) * time.Millisecond
	p.Limits.MemoryBytes = int64(s.MemoryMb) << 20
	p.Limits.CPUs = skillCPUs
	if p.Env == nil {
		p.Env = map[string]string{}
	}
	p.Env[SkillNameVariable] = s.Name
	if s.API == "" {
		return p, nil
	}
	service := profile.Service{Variable: SkillAPIVariable, URL: s.API}
	at, err := service.Endpoint()
	if err != nil {
		return p, &RequestError{Faults: []string{err.Error()}}
	}
	if p.Env[SkillAPIVariable] = at.URL; s.NetworkAccess { // without it the variable is there, and what it says cannot be reached
		p.Service = &service
	}
	return p, nil
}

// Text is what is known of a skill, on one line for people.
func (s Skill) Text() string {
	return s.Name + ", manifest " + s.Manifest + ", published by " + s.Publisher + ", permissions: " + s.May()
}

// May is what a skill asks for, on one line for people.
func (s Skill) May() string {
	var may []string
	for what, yes := range map[string]bool{"networkAccess": s.NetworkAccess, "filesystemAccess": s.FilesystemAccess, "allowSpawn": s.AllowSpawn} {
		if yes {
			may = append(may, what)
		}
	}
	slices.Sort(may)
	may = append(may, s.TxActions...)
	for _, chain := range s.Chains {
		may = append(may, "chain "+strconv.FormatInt(chain, 10))
	}
	return or(strings.Join(may, ", "), "none")
}

// skill checks that a request for a skill asks for nothing that its manifest does not.
func (d *decision) skill() {
	s := d.req.Skill
	if s == nil {
		return
	}
	d.plan.Skill = s
	switch {
	case d.req.Code == nil:
		d.fault("skill %s has no program", s.Name)
	case len(s.Command) == 0 && !slices.Contains(skillLanguages, d.plan.Language):
		d.fault("the first file of skill %s, %s, is neither JavaScript, TypeScript nor Python: .js, .mjs, .ts or .py", s.Name, d.req.Code.Name)
	}
	if d.req.Profile != "" || d.req.Dir != "" || len(d.req.Files)+len(d.req.Mounts)+len(d.req.Env)+len(d.req.Hosts)+len(d.req.Secrets) > 0 ||
		d.req.Network != "" || d.req.Terminal || d.req.Limits != (profile.Limits{}) {
		d.fault("a skill runs as its manifest says: profile, files, variables, network and limits are not the caller's to choose")
	}
}

package policy

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/silk-sandbox/silk/profile"
)

func someSkill() *Skill {
	return &Skill{Name: "price-check", Manifest: "0x12", Publisher: "0x34", MemoryMb: 128, TimeoutMs: 30_000}
}

func skillRequest(s *Skill) Request {
	return Request{
		Client: ClientCLI, Skill: s, Code: &Code{Name: "lib/index.js", Bytes: []byte("1"), SHA256: "0"},
		Uploads: []Upload{{Name: "data.json", Bytes: []byte("{}"), SHA256: "1", Mode: 0o444}},
	}
}

// decideSkill decides as cmd/silk does.
func decideSkill(t *testing.T, req Request, owner Grants) (Plan, error) {
	t.Helper()
	base, err := (*profile.Set)(nil).Lookup(ProfileFor(req))
	if err != nil {
		t.Fatal(err)
	}
	prof, err := req.Skill.Profile(base)
	if err != nil {
		return Plan{}, err
	}
	return Decide(req, prof, owner)
}

func TestSkill(t *testing.T) {
	const api = "http://127.0.0.1:3100/v1"
	const seen = "ISCL_API_URL=http://service.silk.internal:3100/v1"
	for _, tt := range []struct {
		name   string
		change func(*Skill)
		want   func(*testing.T, Plan)
	}{
		{"as it is", func(*Skill) {}, func(t *testing.T, p Plan) {
			want := profile.Limits{Timeout: 30 * time.Second, MemoryBytes: 128 << 20, CPUs: 0.5, Processes: 64, WorkspaceBytes: 256 << 20, TmpBytes: 64 << 20, OutputBytes: 10 << 20}
			if diff := cmp.Diff(want, p.Limits); diff != "" {
				t.Error(diff)
			}
			if !p.NoSpawn || !p.ReadOnly || p.Network != "deny" || p.Egress != nil || len(p.Grants) > 0 || p.Profile != "skill:price-check" || p.Image != "lab:node" ||
				!slices.Equal(p.Args, []string{"node", "/workspace/lib/index.js"}) {
				t.Errorf("%+v", p)
			}
			if !slices.Contains(p.Env, "ISCL_SKILL_NAME=price-check") || strings.Contains(strings.Join(p.Env, " "), "ISCL_API_URL") {
				t.Errorf("environment %q", p.Env)
			}
		}},
		{"limits of the manifest", func(s *Skill) { s.MemoryMb, s.TimeoutMs = 512, 60_000 }, func(t *testing.T, p Plan) {
			if p.Limits.MemoryBytes != 512<<20 || p.Limits.Timeout != time.Minute {
				t.Errorf("%+v", p.Limits)
			}
		}},
		{"allowSpawn", func(s *Skill) { s.AllowSpawn = true }, func(t *testing.T, p Plan) {
			if p.NoSpawn {
				t.Error("no spawn")
			}
		}},
		{"a service without the permission", func(s *Skill) { s.API = api }, func(t *testing.T, p Plan) {
			if p.Egress != nil || len(p.Hosts) > 0 || !slices.Contains(p.Env, seen) {
				t.Errorf("%+v, %q", p.Egress, p.Env)
			}
		}},
		{"the permission without a service", func(s *Skill) { s.NetworkAccess = true }, func(t *testing.T, p Plan) {
			if p.Egress != nil || p.Network != "deny" {
				t.Errorf("%+v", p.Egress)
			}
		}},
		{"a service", func(s *Skill) { s.NetworkAccess, s.API = true, api }, func(t *testing.T, p Plan) {
			if p.Network != "deny" || !slices.Equal(p.Hosts, []string{"http:service.silk.internal:3100"}) || p.Egress == nil || p.Egress.OnRefused != profile.RefusedKills ||
				!slices.Equal(p.Egress.Targets, []string{"127.0.0.1/32:3100"}) || !slices.Contains(p.Env, seen) {
				t.Errorf("%q, %+v, %q", p.Hosts, p.Egress, p.Env)
			}
		}},
		{"an image of its own", func(s *Skill) { s.Image = "sha256:12" }, func(t *testing.T, p Plan) {
			if p.Image != "sha256:12" || !slices.Equal(p.Args, []string{"node", "/workspace/lib/index.js"}) {
				t.Errorf("image %q, %q", p.Image, p.Args)
			}
		}},
		{"an image with a command", func(s *Skill) { s.Image, s.Command = "sha256:12", []string{"/app/run", "-v"} }, func(t *testing.T, p Plan) {
			if p.Image != "sha256:12" || !slices.Equal(p.Args, []string{"/app/run", "-v"}) || !p.NoSpawn || !p.ReadOnly || p.Code == nil || len(p.Uploads) != 1 {
				t.Errorf("%+v", p)
			}
		}},
		{"filesystemAccess widens nothing", func(s *Skill) { s.FilesystemAccess = true }, func(t *testing.T, p Plan) {
			plain, err := decideSkill(t, skillRequest(someSkill()), Grants{})
			if plain.Skill = p.Skill; err != nil || !cmp.Equal(plain, p) {
				t.Errorf("%s", cmp.Diff(plain, p))
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := someSkill()
			tt.change(s)
			p, err := decideSkill(t, skillRequest(s), Grants{Max: profile.Limits{MemoryBytes: 1 << 40}})
			if err != nil {
				t.Fatal(err)
			}
			tt.want(t, p)
		})
	}
}

// TestSkillTakesNothing: nobody who runs a skill changes what it runs with.
func TestSkillTakesNothing(t *testing.T) {
	for name, change := range map[string]func(*Request){
		"a limit":                func(r *Request) { r.Limits.MemoryBytes = 1 << 20 },
		"a network":              func(r *Request) { r.Network = "loopback" },
		"a host":                 func(r *Request) { r.Hosts = []string{"example.org:443"} },
		"a variable":             func(r *Request) { r.Env = []string{"A=b"} },
		"a mount":                func(r *Request) { r.Mounts = []Mount{{"/srv/x", "/workspace/x"}} },
		"a directory":            func(r *Request) { r.Dir = "/srv/x" },
		"a file":                 func(r *Request) { r.Files = []string{"/srv/x"} },
		"a terminal":             func(r *Request) { r.Terminal = true },
		"no program":             func(r *Request) { r.Code, r.Args = nil, []string{"sh"} },
		"a shell script":         func(r *Request) { r.Code.Name = "run.sh" },
		"an unknown language":    func(r *Request) { r.Code.Name = "run.rb" },
		"a program in C":         func(r *Request) { r.Code.Name = "run.c" },
		"a service that is none": func(r *Request) { r.Skill.API = "ftp://x" },
	} {
		req := skillRequest(someSkill())
		change(&req)
		var unread *RequestError
		if p, err := decideSkill(t, req, Grants{Stores: []string{"/srv"}}); !errors.As(err, &unread) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

//go:build unix

package mcp_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/silk-sandbox/silk/serve/servetest"
)

// TestToolsDescribeThemselves: names, schemas and annotations are what clients decide by.
func TestToolsDescribeThemselves(t *testing.T) {
	engine, s := localEngine(t)
	stand := connectPlain(t, engine, s)
	list, err := stand.client.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list.Tools {
		names = append(names, tool.Name)
		if tool.Description == "" || tool.Title == "" || tool.Annotations == nil || tool.InputSchema == nil {
			t.Errorf("%s says too little: %+v", tool.Name, tool)
		}
		if (tool.OutputSchema == nil) != (tool.Name == "read_output") {
			t.Errorf("%s: output schema %v", tool.Name, tool.OutputSchema)
		}
		if open := tool.Annotations.OpenWorldHint; open == nil || *open {
			t.Errorf("%s reaches into the world: %+v", tool.Name, tool.Annotations)
		}
		if in := tool.InputSchema.(map[string]any); fmt.Sprint(in["additionalProperties"]) != "map[not:map[]]" && in["additionalProperties"] != false {
			t.Errorf("%s takes what it does not know: %v", tool.Name, in["additionalProperties"])
		}
	}
	slices.Sort(names)
	want := []string{"cancel_run", "get_record", "list_profiles", "plan", "read_output", "run_code", "run_files", "run_status"}
	if !slices.Equal(names, want) {
		t.Errorf("tools %v, want %v", names, want)
	}
}

func TestRunCode(t *testing.T) {
	each(t, func(s *stand) {
		r := s.call("run_code", args{"code": "# what it does are its arguments", "language": "sh", "profile": servetest.Profile, "args": []string{"print:out\\n", "eprint:err\\n", "exit:3"}})
		got := structured[ran](s, r)
		if r.IsError || got.State != "ended" || got.Outcome != "failed" || got.ExitCode == nil || *got.ExitCode != 3 || got.Stdout.Text != "out\n" || got.Stderr.Text != "err\n" || got.Hint == "" {
			s.T.Errorf("answer %+v", got)
		}
		if said := text(r); !strings.Contains(said, "failed · exit 3") || !strings.Contains(said, "```\nout\n```") || !strings.Contains(said, got.Run) {
			s.T.Errorf("text %s", said)
		}
	})
}

func TestRunFiles(t *testing.T) {
	each(t, func(s *stand) {
		files := []args{{"path": "main.sh", "text": "#"}, {"path": "d/b.bin", "base64": "AP8=", "executable": true}, {"path": "a.txt", "text": "hello"}}
		got := s.run(args{"profile": servetest.Profile, "files": files, "entry": "main.sh", "args": []string{"tree", "read:a.txt", "env"}, "env": args{"B": "2", "A": "1"}})
		for _, want := range []string{"-rwxr-xr-x d/b.bin", "-rw-r--r-- main.sh", "hello", "A=1\nB=2\n"} {
			if got.Outcome != "ok" || !strings.Contains(got.Stdout.Text, want) {
				s.T.Errorf("%q is not in %+v", want, got)
			}
		}
		got = s.run(fake("cat").with("stdin", "typed"))
		if got.Outcome != "ok" || got.Stdout.Text != "typed" {
			s.T.Errorf("stdin: %+v", got)
		}
	})
}

// TestOnlyNarrower is the promise: an agent gets less than the profile if it asks for less, and nothing if it asks for more.
func TestOnlyNarrower(t *testing.T) {
	each(t, func(s *stand) {
		if got := s.run(fake("print:x").with("timeout_ms", 1000).with("memory_bytes", 64<<20).with("network", "deny")); got.Outcome != "ok" {
			s.T.Errorf("less: %+v", got)
		}
		record := structured[struct {
			Record struct {
				Policy struct {
					TimeoutMs int64 `json:"timeout_ms"`
				}
			}
		}](s, s.call("get_record", args{"run": s.run(fake().with("timeout_ms", 1000)).Run}))
		if got := record.Record.Policy.TimeoutMs; got != 1000 {
			s.T.Errorf("the record has a limit of %d ms", got)
		}
		for name, value := range map[string]any{"memory_bytes": 64 << 30, "timeout_ms": 7_200_000, "cpus": 100, "processes": 5000, "network": "loopback", "hosts": []string{"a.example:443"}} {
			r := s.call("run_files", fake("print:ran").with(name, value))
			got := structured[ran](s, r)
			if !r.IsError || got.Outcome != "denied" || got.Rule == "" || got.Message == "" || !strings.Contains(got.Message, servetest.Profile) || got.Stdout.Bytes != 0 || got.Run == "" {
				s.T.Errorf("%s %v: %+v", name, value, got)
			}
			plan := structured[struct {
				Refused *struct{ Rule, Detail, Fix string }
			}](s, s.call("plan", fake("print:ran").with(name, value)))
			if plan.Refused == nil || plan.Refused.Rule != got.Rule || plan.Refused.Fix == "" {
				s.T.Errorf("%s: the plan is %+v", name, plan)
			}
		}
		for _, network := range []string{"allow", "allowlist", "example.org:443"} {
			if r := s.call("run_files", fake("print:ran").with("network", network)); !r.IsError || !strings.Contains(text(r), "network") {
				s.T.Errorf("network %s: %s", network, text(r))
			}
		}
		if n := s.Fake.Running(); n != 0 {
			s.T.Errorf("%d sandboxes run", n)
		}
	})
}

// TestUnreadable: each mistake is a sentence that says what would be right, and nothing runs.
func TestUnreadable(t *testing.T) {
	each(t, func(s *stand) {
		file := []args{{"path": "a.txt", "text": "x"}}
		for _, test := range []struct {
			name, tool string
			args       args
			want       string
		}{
			{"no language", "run_code", args{"code": "print(1)"}, "name the language"},
			{"unknown language", "run_code", args{"code": "x", "language": "klingon"}, "klingon"},
			{"unknown profile", "run_code", args{"code": "x", "language": "sh", "profile": "lab:nothing"}, "lab:nothing"},
			{"unknown field", "run_code", args{"code": "x", "language": "sh", "mounts": []string{"/etc"}}, "mounts"},
			{"nothing to run", "run_files", args{"profile": "test", "files": file}, "either entry"},
			{"both", "run_files", args{"profile": "test", "files": file, "entry": "a.txt", "command": []string{"fake"}}, "either entry"},
			{"no such entry", "run_files", args{"profile": "test", "files": file, "entry": "b.sh"}, "b.sh is not one of the files"},
			{"args of a command", "run_files", args{"profile": "test", "files": file, "command": []string{"fake"}, "args": []string{"x"}}, "put them into command"},
			{"no files", "run_files", args{"profile": "test", "files": []args{}, "command": []string{"fake"}}, "files"},
			{"out of the workspace", "run_files", args{"profile": "test", "files": []args{{"path": "../../etc/passwd", "text": "x"}}, "command": []string{"fake"}}, "../../etc/passwd"},
			{"an absolute path", "run_files", args{"profile": "test", "files": []args{{"path": "/etc/passwd", "text": "x"}}, "command": []string{"fake"}}, "/etc/passwd"},
			{"a path with NUL", "run_files", args{"profile": "test", "files": []args{{"path": "a\x00b", "text": "x"}}, "command": []string{"fake"}}, `a\x00b`},
			{"the same file twice", "run_files", args{"profile": "test", "files": []args{{"path": "a", "text": "x"}, {"path": "a", "text": "y"}}, "command": []string{"fake"}}, "a"},
			{"a file below a file", "run_files", args{"profile": "test", "files": []args{{"path": "a", "text": "x"}, {"path": "a/b", "text": "y"}}, "command": []string{"fake"}}, "a/b"},
			{"text and base64", "run_files", args{"profile": "test", "files": []args{{"path": "a", "text": "x", "base64": "eA=="}}, "command": []string{"fake"}}, "text"},
			{"no base64", "run_files", args{"profile": "test", "files": []args{{"path": "a", "base64": "?"}}, "command": []string{"fake"}}, "base64"},
			{"env without a name", "run_files", fake().with("env", args{"": "x"}), "environment"},
			{"negative time", "run_files", fake().with("timeout_ms", -1), "timeout_ms"},
			{"too much code", "run_code", args{"code": strings.Repeat("x", 5<<20), "language": "sh", "profile": "test"}, "code"},
			{"too many bytes of files", "run_files", args{"profile": "test", "files": []args{{"path": "a", "text": strings.Repeat("x", 9<<20)}}, "command": []string{"fake"}}, "no more than 8388608"},
			{"no run", "run_status", args{"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "there is no such thing"},
			{"no id", "run_status", args{"run": "../../etc"}, "run"},
			{"no run to end", "cancel_run", args{"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "there is no such thing"},
			{"no run to read", "read_output", args{"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "channel": "stdout"}, "there is no such thing"},
			{"no record", "get_record", args{"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "there is no such thing"},
			{"nothing to read", "read_output", args{"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}, "either channel"},
			{"no channel", "read_output", args{"run": "01ARZ3NDEKTSV4RRFFQ69G5FAV", "channel": "stdin"}, "channel"},
			{"a plan of nothing", "plan", args{"profile": "test"}, "either entry"},
			{"a plan of code and files", "plan", args{"profile": "test", "code": "x", "files": file}, "leave files"},
		} {
			r, err := s.client.CallTool(s.T.Context(), &sdk.CallToolParams{Name: test.tool, Arguments: test.args})
			said := ""
			switch {
			case err != nil:
				said = err.Error()
			case !r.IsError:
				s.T.Errorf("%s: it is no error: %s", test.name, text(r))
				continue
			default:
				said = text(r)
			}
			if !strings.Contains(said, test.want) || strings.Contains(said, s.Home) {
				s.T.Errorf("%s: %.300s; want %q in it, and no path of the host", test.name, said, test.want)
			}
		}
		if _, err := s.client.CallTool(s.T.Context(), &sdk.CallToolParams{Name: "rm_rf"}); err == nil {
			s.T.Error("an unknown tool is taken")
		}
	})
}

// TestPlan: it says what would happen, and nothing does.
func TestPlan(t *testing.T) {
	each(t, func(s *stand) {
		plan := structured[struct {
			Hash, Driver string
			Plan         map[string]any
			Enforced     []struct{ What, Rule string }
		}](s, s.call("plan", args{"code": "#", "language": "sh", "profile": servetest.Profile, "timeout_ms": 1000}))
		limits, _ := plan.Plan["limits"].(map[string]any)
		if plan.Hash == "" || plan.Driver != "fake" || limits["timeout_ms"] != 1000.0 || len(plan.Enforced) < 5 {
			s.T.Errorf("plan %+v", plan)
		}
	})
}

func TestProfiles(t *testing.T) {
	each(t, func(s *stand) {
		got := structured[struct {
			Profiles []struct {
				Name, Network string
				Languages     []string
				Limits, Max   map[string]float64
			}
		}](s, s.call("list_profiles", args{}))
		if len(got.Profiles) != 1 || got.Profiles[0].Name != servetest.Profile || got.Profiles[0].Max["timeout_ms"] != 3_600_000 || got.Profiles[0].Max["memory_bytes"] == 0 || !slices.Contains(got.Profiles[0].Languages, "sh") {
			s.T.Errorf("profiles %+v", got)
		}
	})
}

func TestRecord(t *testing.T) {
	each(t, func(s *stand) {
		run := s.run(fake("print:x", "violate:file.accounts,openat,/etc/passwd"))
		if run.Outcome != "violated" || run.Rule != "file.accounts" || !strings.Contains(run.Hint, "owner") {
			s.T.Errorf("run %+v", run)
		}
		got := structured[struct {
			Record map[string]any
			URI    string `json:"uri"`
		}](s, s.call("get_record", args{"run": run.Run}))
		if got.Record["run"] != run.Run || got.Record["client"] != "mcp" || got.Record["schema"] != "silk.run-record/v1" {
			s.T.Errorf("record %v", got.Record)
		}
		whole, err := s.client.ReadResource(s.T.Context(), &sdk.ReadResourceParams{URI: got.URI})
		if err != nil || len(whole.Contents) != 1 || !json.Valid([]byte(whole.Contents[0].Text)) || !strings.Contains(whole.Contents[0].Text, run.Run) {
			s.T.Errorf("resource %+v, %v", whole, err)
		}
	})
}

package install

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var server = Server{Command: "/usr/bin/silk", Args: []string{"mcp"}}

func TestJSON(t *testing.T) {
	const entry = `{"command":"/usr/bin/silk","args":["mcp"]}`
	for _, test := range []struct{ name, in, want, err string }{
		{"no file", "", "{\n  \"mcpServers\": {\n    \"silk\": {\n      \"command\": \"/usr/bin/silk\",\n      \"args\": [\n        \"mcp\"\n      ]\n    }\n  }\n}\n", ""},
		{"an empty object on one line", `{}`, "{\n  \"mcpServers\": {\n    \"silk\": {\n      \"command\": \"/usr/bin/silk\",\n      \"args\": [\n        \"mcp\"\n      ]\n    }\n  }\n}", ""},
		{
			"others stay as they are", "{\n\t\"n\": 1e400000000000000000001,\n\t\"mcpServers\": {\n\t\t\"x\": { \"command\" :\"x\"}\n\t} ,\n\t\"z\":[1 , 2]\n}\n",
			"{\n\t\"n\": 1e400000000000000000001,\n\t\"mcpServers\": {\n\t\t\"x\": { \"command\" :\"x\"},\n\t\t\"silk\": {\n\t\t\t\"command\": \"/usr/bin/silk\",\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\"\n\t\t\t]\n\t\t}\n\t} ,\n\t\"z\":[1 , 2]\n}\n", "",
		},
		{"on one line", `{"mcpServers":{"x":{}},"z":"mcpServers"}`, `{"mcpServers":{"x":{}, "silk": ` + entry + `},"z":"mcpServers"}`, ""},
		{
			"an older entry", "{\r\n  \"mcpServers\": {\r\n    \"silk\": {\"command\": \"old\"},\r\n    \"y\": {}\r\n  }\r\n}",
			"{\r\n  \"mcpServers\": {\r\n    \"silk\": {\r\n      \"command\": \"/usr/bin/silk\",\r\n      \"args\": [\r\n        \"mcp\"\r\n      ]\r\n    },\r\n    \"y\": {}\r\n  }\r\n}", "",
		},
		{"the same entry, written otherwise", `{"mcpServers":{"silk":{ "command" : "/usr/bin/silk","args":["mcp"] }}}`, `{"mcpServers":{"silk":{ "command" : "/usr/bin/silk","args":["mcp"] }}}`, ""},
		{"a deeper one of that name", `{"projects":{"mcpServers":{}},"x":1}`, `{"projects":{"mcpServers":{}},"x":1, "mcpServers": {"silk": ` + entry + `}}`, ""},
		{"a byte order mark", "\xef\xbb\xbf{\"x\":1}", "\xef\xbb\xbf{\"x\":1, \"mcpServers\": {\"silk\": " + entry + `}}`, ""},
		{"comments", "{ // mine\n}", "", "comments"},
		{"a list", "[]", "", "no JSON object"},
		{"a list in its place", `{"mcpServers":[]}`, "", "no object"},
		{"twice", `{"mcpServers":{},"mcpServers":{}}`, "", "twice"},
		{"cut off", `{"mcpServers":{`, "", "plain JSON"},
		{"more than one", `{}{}`, "", "plain JSON"},
		{"not UTF-8", "{\"\xff\":1}", "", "UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := putJSON([]byte(test.in), []string{"mcpServers"}, "silk", []byte(entry))
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q in it; it became %q", err, test.err, got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Error(diff)
			}
			if again, err := putJSON(got, []string{"mcpServers"}, "silk", []byte(entry)); err != nil || string(again) != string(got) {
				t.Errorf("a second time: %q, %v", again, err)
			}
		})
	}
}

// FuzzJSON: whatever the file is, it has the entry then, and all else as it was.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{"", "{}", `{"a":{"mcpServers":1},"mcpServers":{"silk":1,"b":[{}]}}`, "{\n \"a\" : 1\n}", "{\"a\":\n{}}", `{"mcpServers":{}}`, "{ \n }"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out, err := putJSON([]byte(in), []string{"mcpServers"}, "silk", []byte(`{"command":"c","args":[]}`))
		if err != nil {
			return
		}
		var before, after map[string]json.RawMessage
		text := strings.TrimPrefix(in, "\xef\xbb\xbf")
		if strings.TrimSpace(text) == "" {
			text = "{}"
		}
		if err := json.Unmarshal([]byte(text), &before); err != nil {
			t.Fatalf("%q is taken and is no object: %v", in, err)
		}
		if err := json.Unmarshal([]byte(strings.TrimPrefix(string(out), "\xef\xbb\xbf")), &after); err != nil {
			t.Fatalf("%q became %q: %v", in, out, err)
		}
		var servers, old map[string]json.RawMessage
		if err := json.Unmarshal(after["mcpServers"], &servers); err != nil || !equal(servers["silk"], []byte(`{"command":"c","args":[]}`)) {
			t.Errorf("%q became %q", in, out)
		}
		_ = json.Unmarshal(before["mcpServers"], &old) // there may be none
		delete(servers, "silk")
		delete(old, "silk")
		delete(before, "mcpServers")
		delete(after, "mcpServers")
		if len(old)+len(servers) > 0 && !cmp.Equal(old, servers) || len(before)+len(after) > 0 && !cmp.Equal(before, after) {
			t.Errorf("%q became %q", in, out)
		}
	})
}

func TestTOML(t *testing.T) {
	const entry = "[mcp_servers.silk]\ncommand = \"c\"\n"
	for _, test := range []struct{ name, in, want, err string }{
		{"no file", "", entry, ""},
		{"after others", "model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = 'a'", "model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = 'a'\n\n" + entry, ""},
		{"in place of an older one", "a = 1\n[mcp_servers.silk]\ncommand = \"old\"\n\n[mcp_servers.silk.env]\nA = \"1\"\n\n# of b\n[b]\nc = 2\n", "a = 1\n" + entry + "\n# of b\n[b]\nc = 2\n", ""},
		{"with quotes", "[ \"mcp_servers\" . 'silk' ]\ncommand = \"old\"\n[b]\n", entry + "[b]\n", ""},
		{"a table in a string", "a = \"\"\"\n[mcp_servers.silk]\n\"\"\"\nb = '''\n[mcp_servers.silk]'''\n", "a = \"\"\"\n[mcp_servers.silk]\n\"\"\"\nb = '''\n[mcp_servers.silk]'''\n\n" + entry, ""},
		{"quotes in a string", "a = \"\"\"\n\"x\"\"\n[mcp_servers.silk]\n\"\"\"\"\nb = 1\n", "a = \"\"\"\n\"x\"\"\n[mcp_servers.silk]\n\"\"\"\"\nb = 1\n\n" + entry, ""},
		{"a table in a list", "a = [ # ]\n  [1],\n  \"]\",\n]\n", "a = [ # ]\n  [1],\n  \"]\",\n]\n\n" + entry, ""},
		{"Windows line ends", "a = 1\r\n", "a = 1\r\n\r\n" + strings.ReplaceAll(entry, "\n", "\r\n"), ""},
		{"a name that only begins alike", "[mcp_servers.silk2]\na = 1\n[mcp_servers_silk]\n", "[mcp_servers.silk2]\na = 1\n[mcp_servers_silk]\n\n" + entry, ""},
		{"arrays of tables", "[[profiles]]\nname = \"[x\\\"]\"\n", "[[profiles]]\nname = \"[x\\\"]\"\n\n" + entry, ""},
		{"inline", "mcp_servers = { silk = { command = \"x\" } }\n", "", "inline"},
		{"inline below", "[mcp_servers]\nsilk = { command = \"x\" }\n", "", "inline"},
		{"dotted", "mcp_servers.silk.command = \"x\"\n", "", "inline"},
		{"in two places", "[mcp_servers.silk]\na = 1\n[b]\n[mcp_servers.silk.env]\n", "", "two places"},
		{"an array", "[[mcp_servers.silk]]\n", "", "array"},
		{"no TOML", "{\"mcpServers\": {}}\n", "", "not TOML: line 1"},
		{"cut off", "a = \"\"\"\nx", "", "does not end"},
		{"cut off list", "a = [1,\n", "", "does not end"},
		{"not UTF-8", "a = \"\xff\"", "", "UTF-8"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := putTOML([]byte(test.in), "mcp_servers", "silk", entry)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q in it; it became %q", err, test.err, got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Error(diff)
			}
			if again, err := putTOML(got, "mcp_servers", "silk", entry); err != nil || string(again) != string(got) {
				t.Errorf("a second time: %q, %v", again, err)
			}
		})
	}
}

// FuzzTOML: it neither panics nor does another thing the second time, and what it was is a part of what it becomes.
func FuzzTOML(f *testing.F) {
	f.Add("a = 1\n[b.c]\nd = [\"\"\"x\"\"\", {e = 1}]\n")
	f.Add("[mcp_servers.silk]\na=1\n\n[b]")
	f.Fuzz(func(t *testing.T, in string) {
		const entry = "[mcp_servers.silk]\ncommand = \"c\"\n"
		out, err := putTOML([]byte(in), "mcp_servers", "silk", entry)
		if err != nil {
			return
		}
		if !strings.Contains(strings.ReplaceAll(string(out), "\r\n", "\n"), "command = \"c\"") {
			t.Errorf("%q became %q", in, out)
		}
		if again, err := putTOML(out, "mcp_servers", "silk", entry); err != nil || string(again) != string(out) {
			t.Errorf("%q became %q and then %q, %v", in, out, again, err)
		}
	})
}

func TestEntries(t *testing.T) {
	s := Server{Command: `C:\Program Files\silk "x".exe`, Args: []string{"mcp", "--server", "https://e/"}, Env: map[string]string{"B": "2", "A": "1"}}
	want := "[mcp_servers.silk]\ncommand = \"C:\\\\Program Files\\\\silk \\\"x\\\".exe\"\nargs = [\"mcp\", \"--server\", \"https://e/\"]\ntool_timeout_sec = 130\n\n[mcp_servers.silk.env]\n\"A\" = \"1\"\n\"B\" = \"2\"\n"
	if got := tomlEntry("mcp_servers", s); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if out, err := putTOML(nil, "mcp_servers", "silk", want); err != nil || string(out) != want {
		t.Errorf("it is read as %q, %v", out, err)
	}
}

// TestPlan writes the file of each agent, whole and with the permissions that it had.
func TestPlan(t *testing.T) {
	home := t.TempDir()
	p := Places{Home: home, Config: filepath.Join(home, "config"), Project: filepath.Join(home, "vault"), Env: func(string) string { return "" }}
	for _, a := range Agents {
		c, err := Plan(a, p, server)
		if err != nil || c.Old != nil || c.Same() {
			t.Fatalf("%s: %+v, %v", a.Name, c, err)
		}
		if !strings.HasPrefix(c.File, home) || strings.HasPrefix(c.File, p.Project) != a.Project {
			t.Errorf("%s: file %s", a.Name, c.File)
		}
		if err := c.Apply(); err != nil {
			t.Fatal(err)
		}
		if err := c.Apply(); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: written over: %v", a.Name, err)
		}
		if err := os.Chmod(c.File, 0o640); err != nil {
			t.Fatal(err)
		}
		if c, err = Plan(a, p, server); err != nil || !c.Same() {
			t.Errorf("%s, a second time: %s, %v", a.Name, c.New, err)
		}
		other := server
		other.Args = []string{"mcp", "--server", "unix:///x"}
		if c, err = Plan(a, p, other); err != nil || c.Same() {
			t.Fatalf("%s, with other arguments: %v", a.Name, err)
		}
		if err := c.Apply(); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(c.File)
		if err != nil {
			t.Fatal(err)
		}
		if runtime.GOOS != "windows" && info.Mode().Perm() != 0o640 {
			t.Errorf("%s: mode %v", a.Name, info.Mode())
		}
		if typed := strings.Contains(string(c.New), `"stdio"`); typed != a.typed || !strings.Contains(string(c.New), "unix:///x") {
			t.Errorf("%s: %s", a.Name, c.New)
		}
		if err := os.WriteFile(c.File, []byte("// mine\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		var unread *UnreadableError
		if _, err := Plan(a, p, server); !errors.As(err, &unread) || !strings.Contains(err.Error(), server.Command) || !strings.Contains(err.Error(), c.File) {
			t.Errorf("%s, a file with something else: %v", a.Name, err)
		}
		if now, err := os.ReadFile(c.File); err != nil || string(now) != "// mine\n" {
			t.Errorf("%s: %q, %v", a.Name, now, err)
		}
	}
}

// TestLinkedFile: a link to a file that is kept elsewhere stays one.
func TestLinkedFile(t *testing.T) {
	home := t.TempDir()
	kept := filepath.Join(home, "dotfiles.json")
	if err := os.WriteFile(kept, []byte(`{"a":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, filepath.Join(home, ".claude.json")); err != nil {
		t.Fatal(err)
	}
	a, _ := Named("claude-code")
	c, err := Plan(a, Places{Home: home, Env: os.Getenv}, server)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(filepath.Join(home, ".claude.json")); err != nil || to != kept {
		t.Errorf("the link is %q, %v", to, err)
	}
	if text, err := os.ReadFile(kept); err != nil || !strings.HasPrefix(string(text), `{"a":1, "mcpServers"`) {
		t.Errorf("%s, %v", text, err)
	}
}

package rules

import (
	"flag"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/internal/atomicfile"
)

var update = flag.Bool("update", false, "write the table into docs/security.md")

// docs/security.md prints the table.
func TestDocs(t *testing.T) {
	const (
		page  = "../../docs/security.md"
		begin = "<!-- rules: written by go test ./driver/rules -update -->\n"
		end   = "<!-- end of rules -->\n"
	)
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	var want strings.Builder
	want.WriteString("| Rule | Action | Calls or files | Why |\n|---|---|---|---|\n")
	for _, r := range All() {
		action := string(r.Action)
		if r.Errno != "" {
			action += ", " + r.Errno
		}
		about := "`" + strings.Join(append(r.Calls, r.Files...), "` `") + "`"
		if about == "``" {
			about = ""
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", r.Name, action, about, r.Reason)
	}
	if *update {
		if err := atomicfile.Write(page, []byte(before+begin+want.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want.String() {
		t.Errorf("%s has another table than this package: go test ./driver/rules -update", page)
	}
}

func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range All() {
		class, name, _ := strings.Cut(r.Name, ".")
		if class == "" || name == "" || seen[r.Name] {
			t.Errorf("rule %q is not class.name, or stands twice", r.Name)
		}
		seen[r.Name] = true
		if r.Reason == "" {
			t.Errorf("rule %s has no reason", r.Name)
		}
		if refuses := r.Action == Deny || r.Action == Absent; refuses != (r.Errno != "") {
			t.Errorf("rule %s: %s with errno %q", r.Name, r.Action, r.Errno)
		}
		if isFile := class == "file" && len(r.Calls) == 0; !isFile && len(r.Calls) == 0 {
			t.Errorf("rule %s is about no call", r.Name)
		}
		for _, name := range r.Files {
			if !path.IsAbs(name) || path.Clean(name) != name {
				t.Errorf("rule %s: %q is not a plain absolute path", r.Name, name)
			}
		}
		if got, ok := Named(r.Name); !ok || got.Reason != r.Reason {
			t.Errorf("Named(%q) finds %+v", r.Name, got)
		}
	}
	if _, ok := Named("file.nothing"); ok {
		t.Error("a rule is found that does not exist")
	}
	if last := All()[indexOfLastFileRule()]; last.Name != FileUnlisted {
		t.Errorf("the last rule about files is %s: what nothing else allows must be refused", last.Name)
	}
}

func indexOfLastFileRule() (last int) {
	for i, r := range All() {
		if strings.HasPrefix(r.Name, "file.") && len(r.Calls) == 0 {
			last = i
		}
	}
	return last
}

// A line of the start-up list opens nothing that a rule forbids, and says why it is there.
func TestStartup(t *testing.T) {
	seen := map[string]bool{}
	for _, e := range Startup() {
		if e.Reason == "" || !path.IsAbs(e.Name) || path.Clean(e.Name) != e.Name || seen[e.Name] {
			t.Errorf("start-up entry %+v", e)
		}
		seen[e.Name] = true
		if HostDevice(e.Name) {
			t.Errorf("%s is a device of the host", e.Name)
		}
		for _, r := range All() {
			for _, f := range r.Files {
				if r.Action == Kill && f != "/sys" && (Covers(f, e.Name) || Covers(e.Name, f)) {
					t.Errorf("%s opens what rule %s forbids", e.Name, r.Name)
				}
			}
		}
	}
}

func TestForbidden(t *testing.T) {
	got := strings.Join(Forbidden(), " ")
	if want := "/etc/passwd- /etc/group- /etc/shadow- /etc/gshadow- /etc/security/opasswd /etc/sudoers.d /etc/passwd /etc/shadow /etc/gshadow /etc/sudoers /root /boot"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		dir, name string
		want      bool
	}{
		{"/a", "/a", true},
		{"/a", "/a/b", true},
		{"/a", "/ab", false},
		{"/a/b", "/a", false},
		{"/", "/x", true},
		{"/", "/", true},
	} {
		if got := Covers(test.dir, test.name); got != test.want {
			t.Errorf("Covers(%q, %q) = %t", test.dir, test.name, got)
		}
	}
}

func TestHostDevice(t *testing.T) {
	for name, want := range map[string]bool{
		"/dev/sda": true, "/dev/sda1": true, "/dev/net/tun": true, "/dev/net": false, "/dev/null": false, "/dev/tty": false, "/dev/tty1": true,
		"/dev/shm/sda": false, "/workspace/dev/sda": false, "/dev/disk/by-id/x": true,
	} {
		if got := HostDevice(name); got != want {
			t.Errorf("HostDevice(%q) = %t", name, got)
		}
	}
}

package skills

import (
	"bytes"
	"strings"
	"testing"
)

// TestSandbox: agents find a skill by its front matter, whose name is that of the folder and whose description has a limit.
func TestSandbox(t *testing.T) {
	head, body, ok := bytes.Cut(bytes.TrimPrefix(Sandbox, []byte("---\n")), []byte("\n---\n"))
	if !ok || !bytes.HasPrefix(Sandbox, []byte("---\n")) {
		t.Fatal("no front matter")
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(head)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		fields[name] = value
	}
	if fields["name"] != SandboxName {
		t.Errorf("name %q", fields["name"])
	}
	if n := len(fields["description"]); n == 0 || n > 1024 {
		t.Errorf("the description has %d bytes", n)
	}
	for _, outcome := range []string{"ok", "failed", "timeout", "oom", "violated", "denied", "canceled", "error"} {
		if !bytes.Contains(body, []byte("| `"+outcome+"` |")) {
			t.Errorf("outcome %s is not explained", outcome)
		}
	}
	for _, tool := range []string{"run_code", "run_files", "run_status", "cancel_run", "read_output", "list_profiles", "plan", "get_record"} {
		if !bytes.Contains(body, []byte("`"+tool+"`")) {
			t.Errorf("tool %s is not named", tool)
		}
	}
}

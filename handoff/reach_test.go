package handoff

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReach looks at a sink and leaves nothing there.
func TestReach(t *testing.T) {
	vault := t.TempDir()
	if err := (Sink{Name: "x", Vault: vault}).Reach(t.Context()); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(vault); len(names) != 0 || err != nil {
		t.Errorf("left in the vault: %v, %v", names, err)
	}
	file := filepath.Join(vault, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, s := range []Sink{
		{Name: "x", Vault: filepath.Join(vault, "gone")},
		{Name: "x", Vault: file},
		{Name: "x", URL: "https://127.0.0.1:1/", SecretFile: filepath.Join(vault, "no.key")},
		{Name: "x", URL: "http://127.0.0.1:1/", SecretFile: file}, // too short
	} {
		if err := s.Reach(t.Context()); err == nil {
			t.Errorf("%+v can take something", s)
		}
	}
}

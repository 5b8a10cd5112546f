package httpapi

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write what is generated in ../api")

// TestSpec: the committed description is the one of the operations that answer.
func TestSpec(t *testing.T) {
	committed(t, "../api/openapi.yaml", Spec)
	committed(t, "../api/handoff.schema.json", HandoffSchema)
}

// committed compares a file with what make makes now.
func committed(t *testing.T, file string, make func() ([]byte, error)) {
	t.Helper()
	got, err := make()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is not up to date (run make generate):\n%s", file, diff)
	}
}

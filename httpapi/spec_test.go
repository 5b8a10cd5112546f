package httpapi

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write ../api/openapi.yaml")

// TestSpec: the committed description is the one of the operations that answer.
func TestSpec(t *testing.T) {
	const file = "../api/openapi.yaml"
	got, err := Spec()
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
		t.Errorf("api/openapi.yaml is not up to date (run make generate):\n%s", diff)
	}
}

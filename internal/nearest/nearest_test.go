package nearest

import "testing"

func TestTo(t *testing.T) {
	names := []string{"lab:text", "lab:python", "lab:node", "lab:repo"}
	tests := []struct{ name, word, want string }{
		{"one letter missing", "lab:pyton", "lab:python"},
		{"two letters swapped", "lab:pyhton", "lab:python"},
		{"one letter too many", "lab:nodee", "lab:node"},
		{"the prefix left out", "python", ""},
		{"nothing like it", "kubernetes", ""},
		{"empty", "", ""},
		{"exact", "lab:repo", "lab:repo"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := To(tt.word, names); got != tt.want {
				t.Errorf("To(%q) = %q, want %q", tt.word, got, tt.want)
			}
		})
	}
}

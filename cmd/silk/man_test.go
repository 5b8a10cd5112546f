package main

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		"plain": "plain", "--flag": `\-\-flag`, `a\b`: `a\eb`, ".hidden": `\&.hidden`, "'quote": `\&'quote`, "a\n\nb": "a\n.PP\nb", "a\n.b": "a\n\\&.b",
	} {
		if got := roff(text); got != want {
			t.Errorf("roff(%q) = %q, want %q", text, got, want)
		}
	}
}

// Every verb and every flag of it is in the manual, and no line is taken for a request that is none.
func TestManPageIsComplete(t *testing.T) {
	root := newApp(nil).root()
	page := manPage(root)
	for _, c := range leaves(root) {
		if !strings.Contains(page, "\n.SH "+strings.ToUpper(roff(c.CommandPath()))+"\n") {
			t.Errorf("%s has no section", c.CommandPath())
		}
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(page, "\n.B "+roff("--"+f.Name)) && !strings.Contains(page, roff(", --"+f.Name)) && f.Name != "help" && !f.Hidden {
				t.Errorf("%s --%s is missing", c.CommandPath(), f.Name)
			}
		})
		if c.Short == "" || c.Example == "" {
			t.Errorf("%s has no short text or no example", c.CommandPath())
		}
	}
	known := map[string]bool{".TH": true, ".SH": true, ".B": true, ".br": true, ".TP": true, ".PP": true, ".nf": true, ".fi": true}
	for l := range strings.Lines(page) {
		if word, _, _ := strings.Cut(strings.TrimSpace(l), " "); l[0] == '.' && !known[word] {
			t.Errorf("unknown request in %q", l)
		}
	}
}

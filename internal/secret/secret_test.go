package secret

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

const value = "silk_hunter2"

// Around has a secret everywhere where printers find one.
type around struct {
	Field   Secret
	private Secret
	Pointer *Secret
	List    []Secret
	Map     map[string]Secret
	Keys    map[Secret]int
	Any     any
}

func TestNothingPrintsIt(t *testing.T) {
	s := New(value)
	a := around{s, s, &s, []Secret{s}, map[string]Secret{"k": s}, map[Secret]int{s: 1}, s}
	shown := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%10s", "%p"} {
		for name, v := range map[string]any{"secret": s, "pointer": &s, "struct": a, "pointer to struct": &a} {
			shown[verb+" of "+name] = fmt.Sprintf(verb, v)
		}
	}
	shown["error"] = fmt.Errorf("verify %v: %w", s, errors.New("no")).Error()
	for name, v := range map[string]any{"secret": s, "struct": a} {
		text, err := json.Marshal(v)
		shown["json of "+name] = fmt.Sprint(string(text), err)
	}
	text, err := xml.Marshal(s)
	shown["xml"] = fmt.Sprint(string(text), err)
	var log bytes.Buffer
	for name, handler := range map[string]slog.Handler{"text": slog.NewTextHandler(&log, nil), "json": slog.NewJSONHandler(&log, nil)} {
		slog.New(handler).Info("m", "secret", s, "pointer", &s, "struct", a, slog.Group("g", "s", s))
		shown["slog "+name] = log.String()
	}
	hex := fmt.Sprintf("%x", value)
	for how, got := range shown {
		if strings.Contains(got, "hunter2") || strings.Contains(strings.ToLower(got), hex) {
			t.Errorf("%s shows it: %s", how, got)
		}
	}
	if got := fmt.Sprintf("%s %v", s, s); got != Shown+" "+Shown {
		t.Errorf("shown as %q", got)
	}
}

func TestReveal(t *testing.T) {
	if got := New(value).Reveal(); got != value {
		t.Errorf("Reveal() = %q", got)
	}
	var zero Secret
	if zero.Reveal() != "" || !zero.Empty() || New(value).Empty() || !New("").Empty() {
		t.Error("the zero secret is not the only empty one beside New(\"\")")
	}
}

func TestEqual(t *testing.T) {
	for _, test := range []struct {
		name string
		a, b Secret
		want bool
	}{
		{"the same text", New(value), New(value), true},
		{"another text", New(value), New("silk_hunter3"), false},
		{"a prefix", New(value), New(value[:5]), false},
		{"two zero secrets", Secret{}, Secret{}, true},
		{"zero and something", Secret{}, New(value), false},
	} {
		if got := test.a.Equal(test.b); got != test.want {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

func ExampleSecret() {
	token := New("silk_0123456789")
	fmt.Println(token)
	fmt.Println(len(token.Reveal()))
	// Output:
	// (secret)
	// 15
}

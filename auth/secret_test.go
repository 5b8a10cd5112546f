package auth

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/internal/secret"
)

func TestSecretsAreWellFormed(t *testing.T) {
	pattern := regexp.MustCompile(SecretPattern)
	seen := map[string]bool{}
	for range 200 {
		s := newSecret()
		text := s.Reveal()
		if seen[text] {
			t.Fatal("a secret comes twice")
		}
		seen[text] = true
		if err := CheckSecret(s); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := pattern.FindString("token: " + text + "."); got != text {
			t.Errorf("the pattern finds %q in %s", got, text)
		}
	}
}

// Every character counts: whichever is changed, the checksum tells.
func TestEveryTypoIsFound(t *testing.T) {
	good := newSecret().Reveal()
	for i := len(secretPrefix); i < len(good); i++ {
		for _, r := range letters {
			typo := good[:i] + string(r) + good[i+1:]
			if typo == good {
				continue
			}
			if err := CheckSecret(secret.New(typo)); !errors.Is(err, ErrMistyped) {
				t.Fatalf("%s for %s: %v", typo, good, err)
			}
		}
		if i+1 < len(good) && good[i] != good[i+1] {
			swapped := good[:i] + good[i+1:i+2] + good[i:i+1] + good[i+2:]
			if err := CheckSecret(secret.New(swapped)); !errors.Is(err, ErrMistyped) {
				t.Fatalf("%s for %s: %v", swapped, good, err)
			}
		}
	}
}

func TestCheckSecretSaysWhy(t *testing.T) {
	good := newSecret().Reveal()
	for _, test := range []struct{ name, text, why string }{
		{"nothing", "", "does not begin"},
		{"without the prefix", good[5:], "does not begin"},
		{"the prefix only", "silk_", "0 characters"},
		{"a character short", good[:len(good)-1], "57 characters"},
		{"one too many", good + "0", "59 characters"},
		{"a line break", good + "\n", "59 characters"},
		{"in upper case", "silk_" + strings.ToUpper(good[5:len(good)-1]) + "A", "small letters"},
		{"a letter that is left out", good[:len(good)-1] + "l", "small letters"},
		{"a byte that is no text", good[:len(good)-1] + "\xff", "small letters"},
		{"padding", good[:len(good)-1] + "=", "small letters"},
		{"a line break inside, which base32 skips", good[:20] + "\n" + good[21:], "small letters"},
	} {
		err := CheckSecret(secret.New(test.text))
		if !errors.Is(err, ErrMistyped) || !strings.Contains(err.Error(), test.why) {
			t.Errorf("%s: %v, want %q", test.name, err, test.why)
		}
		if err != nil && len(test.text) > 10 && strings.Contains(err.Error(), test.text[5:]) {
			t.Errorf("%s: the error has the secret in it: %v", test.name, err)
		}
	}
}

func FuzzCheckSecret(f *testing.F) {
	f.Add(newSecret().Reveal())
	f.Add("silk_")
	f.Add("silk_" + strings.Repeat("0", secretLetter))
	pattern := regexp.MustCompile("^" + SecretPattern + "$")
	f.Fuzz(func(t *testing.T, text string) {
		if CheckSecret(secret.New(text)) == nil && !pattern.MatchString(text) {
			t.Errorf("%q is taken, and the pattern does not match it", text)
		}
	})
}

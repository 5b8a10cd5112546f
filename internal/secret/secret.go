// Package secret holds values that must never be printed: tokens, tickets, keys.
//
// A [Secret] in a log, an error, a JSON answer or a dumped struct shows "(secret)" or an address, never its value. The
// value sits behind a pointer because fmt does not call the methods of unexported fields: %+v of a struct around a plain
// string would print it. It does not protect memory: a core dump has the value.
package secret

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"
)

// Shown is what stands for the value of every secret.
const Shown = "(secret)"

// Secret is a text that does not print itself. The zero Secret is empty. Two secrets are compared with [Secret.Equal]:
// == compares where the values are kept.
type Secret struct{ value *string }

// New makes a secret of text.
func New(text string) Secret { return Secret{&text} }

// Reveal returns the text. Its callers are the places to look at in a review.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// Empty says whether there is no text.
func (s Secret) Empty() bool { return s.Reveal() == "" }

// Equal compares in a time that depends only on the lengths.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String returns [Shown].
func (Secret) String() string { return Shown }

// Format prints [Shown], whatever the verb.
func (Secret) Format(f fmt.State, _ rune) { io.WriteString(f, Shown) }

// LogValue returns [Shown].
func (Secret) LogValue() slog.Value { return slog.StringValue(Shown) }

// MarshalText returns [Shown]. JSON, and keys of maps in it, go through it too.
func (Secret) MarshalText() ([]byte, error) { return []byte(Shown), nil }

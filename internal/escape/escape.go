// Package escape makes text safe to show on a terminal. JSON lets through some characters that steer terminals (DEL and
// the C1 controls) or turn the reading direction; programs in a sandbox know that what they name is shown to people.
package escape

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// JSON returns JSON text of one line in which everything that does not print is a \u escape: the same value, written
// otherwise. Text that is no UTF-8 is not JSON; what is broken in it becomes U+FFFD.
func JSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

package postgres

import "testing"

func TestNumbered(t *testing.T) {
	for _, test := range []struct{ name, in, want string }{
		{"none", "SELECT 1", "SELECT 1"},
		{"in order", "SELECT ?, ? WHERE a = ?", "SELECT $1, $2 WHERE a = $3"},
		{"eleven", "?,?,?,?,?,?,?,?,?,?,?", "$1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11"},
		{"in a string", "SELECT '?', ?", "SELECT '?', $1"},
		{"after a quote in a string", "SELECT '?''?', ?", "SELECT '?''?', $1"},
		{"in a name", `SELECT "?" FROM ?`, `SELECT "?" FROM $1`},
		{"in a comment", "SELECT ? -- ?\n, ?", "SELECT $1 -- ?\n, $2"},
		{"in a long comment", "SELECT /* ? */ ?", "SELECT /* ? */ $1"},
		{"a string that does not end", "SELECT ?, '?", "SELECT $1, '?"},
		{"a comment that does not end", "SELECT ? --?", "SELECT $1 --?"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := numbered(test.in); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestStorable(t *testing.T) {
	for in, want := range map[string]string{"": "", "héllo": "héllo", "a\x00b": "a\ufffdb", "a\xff\xfeb": "a\ufffdb", "\x00\xff": "\ufffd\ufffd"} {
		if got := storable(in); got != want {
			t.Errorf("%q is stored as %q, want %q", in, got, want)
		}
	}
}

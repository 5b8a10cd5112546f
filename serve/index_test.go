package serve

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/store"
)

// TestIndex: a page of a list is found by an index, not by walking what has ended.
func TestIndex(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for where, index := range map[string]string{notEnded: "requests_open", ofSession: "requests_session", "q.token = ?": "requests_token"} {
		var id, parent, unused int
		var how string
		query := "EXPLAIN QUERY PLAN SELECT * FROM requests q LEFT JOIN runs r ON r.id = q.run WHERE " + where + " AND q.run < '7' ORDER BY q.run DESC LIMIT 9"
		if err := db.QueryRowContext(t.Context(), query, "s").Scan(&id, &parent, &unused, &how); err != nil || !strings.HasPrefix(how, "SEARCH q USING INDEX "+index+" ") {
			t.Errorf("%s: %v, %s", where, err, how)
		}
	}
}

package queue

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/silk-sandbox/silk/store"
)

// TestIndex: what has ended, which is nearly all that there is, is not walked by those who look for the rest.
func TestIndex(t *testing.T) {
	db, err := store.Open(t.Context(), filepath.Join(t.TempDir(), store.FileName))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, where := range []string{lostRows, waitingRows, othersRows} {
		var id, parent, unused int
		var how string
		err := db.QueryRowContext(t.Context(), "EXPLAIN QUERY PLAN SELECT * FROM requests WHERE "+where, "w").Scan(&id, &parent, &unused, &how)
		if err != nil || !strings.HasPrefix(how, "SEARCH requests USING INDEX requests_open ") {
			t.Errorf("%s: %v, %s", where, err, how)
		}
	}
}

package audit

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/silk-sandbox/silk/store"
)

// Selection chooses events for an export. Its zero value chooses all.
type Selection struct {
	Since, Until time.Time // that happened at Since or later, before Until; zero: no limit
	Run          string    // of this run only
	Prefix       string    // event names that begin so
}

func (s Selection) matches(e Event) bool {
	at := time.UnixMilli(e.Timestamp)
	return (s.Since.IsZero() || !at.Before(s.Since)) && (s.Until.IsZero() || at.Before(s.Until)) &&
		(s.Run == "" || s.Run == e.Run) && strings.HasPrefix(string(e.Name), s.Prefix)
}

// exportEnd is the last line of an export.
type exportEnd struct {
	Schema string `json:"schema"`
	Events int64  `json:"events"` // lines before this one
	Head   Head   `json:"head"`   // of the whole trail, whatever was chosen
	Gap    *Gap   `json:"removed,omitempty"`
}

// Export writes the chosen events to w, the oldest first, one JSON object a line as [Event] prints it, and a last line with
// the schema silk.audit-export/v1, their number and the head of the trail. It verifies the whole trail on the way: an
// error, a [*BrokenError] included, means that what was written is not an export.
func Export(ctx context.Context, db *store.DB, w io.Writer, s Selection) (events int64, report Report, err error) {
	out := bufio.NewWriter(w)
	report, err = verify(ctx, db, nil, func(e Event) error {
		if !s.matches(e) {
			return nil
		}
		events++
		return put(out, e)
	})
	var gone *missingError
	if errors.As(err, &gone) && !stillListed(ctx, db, gone.segment) {
		return events, report, errors.New("export audit trail: retention removed a part of it meanwhile; export it again")
	}
	if err == nil {
		err = put(out, exportEnd{Schema: "silk.audit-export/v1", Events: events, Head: report.Head, Gap: report.Gap})
	}
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		return events, report, fmt.Errorf("export audit trail: %w", err)
	}
	return events, report, nil
}

func put(w io.Writer, v any) error {
	text, err := line(v)
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/silk-sandbox/silk/api"
	"github.com/silk-sandbox/silk/auth"
)

// events sends server-sent events (HTML standard, section 9.2).
func (h *handler) events(w http.ResponseWriter, r *http.Request, id auth.Identity, f frames) {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead { // its frames would go nowhere, and nothing would tell that the client has gone
		return
	}
	out := http.NewResponseController(w)
	if err := out.Flush(); err != nil { // the client sees that it is connected, though nothing may happen for long
		return
	}
	var at api.Tail
	_ = h.pump(r.Context(), id, f, func(frame []byte) error {
		if err := out.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
			return err
		}
		if r.PathValue("run") != "" { // a session goes on by its query: there is no short id of so many runs
			advance(&at, frame)
			if _, err := fmt.Fprintf(w, "id: %d,%d\n", at.Stdout, at.Stderr); err != nil {
				return err
			}
		}
		if _, err := fmt.Fprintf(w, "data: %s\n\n", frame); err != nil {
			return err
		}
		return out.Flush()
	})
}

// advance moves a cursor behind a frame.
func advance(at *api.Tail, text []byte) {
	var f api.Frame
	if json.Unmarshal(text, &f) != nil {
		return
	}
	to := &at.Stdout
	if f.Channel == "stderr" {
		to = &at.Stderr
	}
	switch {
	case f.Type == api.FrameHello && f.TailFrom != nil:
		*at = *f.TailFrom
	case f.Type == api.FrameGap && f.To != nil:
		*to = *f.To
	case f.Type == api.FrameOutput && f.Offset != nil:
		if data, err := f.Bytes(); err == nil {
			*to = *f.Offset + int64(len(data))
		}
	}
}

package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/silk-sandbox/silk/auth"
)

// health answers those who watch the service: /healthz says that the process lives, /readyz whether it takes runs.
func (h *handler) health(mux *http.ServeMux) {
	say := func(w http.ResponseWriter, status int, state string) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"status": state}) // the client has gone
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if id, _ := auth.FromContext(r.Context()); !id.Can(auth.ActViewAll) { // they tell of the runs of all
			h.refuse(w, h.problemOf(r.Context(), auth.ErrForbidden))
			return
		}
		h.cfg.Metrics.ServeHTTP(w, r)
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := h.cfg.Ready(); err != nil {
			h.cfg.Logger.Warn("not ready", "error", err)
			say(w, http.StatusServiceUnavailable, "not ready; the server's log says why")
			return
		}
		say(w, http.StatusOK, "ready")
	})
}

package httpapi

import (
	"net/http"
	"net/http/pprof"
)

// profile serves Go's profiles of the server, over the unix socket only: they show names and memory of the process.
func (h *handler) profile(mux *http.ServeMux) {
	for path, f := range map[string]http.HandlerFunc{
		"/debug/pprof/": pprof.Index, "/debug/pprof/profile": pprof.Profile, "/debug/pprof/symbol": pprof.Symbol, "/debug/pprof/trace": pprof.Trace,
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			if !isLocal(r) {
				h.refuse(w, problem(http.StatusNotFound, "not-found", "there is no such thing", ""))
				return
			}
			f(w, r)
		})
	}
}

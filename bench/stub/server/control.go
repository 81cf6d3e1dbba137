package server

// What a person, or a benchmark in another process, asks and tells the stub while it runs.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// isControl tells a control request from a call.
func isControl(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/_stub/") || r.URL.Path == "/" && r.Method == http.MethodGet
}

// Control is the help page and /_stub/ alone, to be served at another address as well: one that goes on answering while a phase refuses
// connections.
func (s *Server) Control() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.control(w, r, false) })
}

// methods are the control requests.
var methods = map[string]string{"/": "GET", "/_stub/report": "GET", "/_stub/phase": "POST", "/_stub/start": "POST"}

// control answers a control request; inside tells whether it came through the port that the scenario opens and closes.
func (s *Server) control(w http.ResponseWriter, r *http.Request, inside bool) {
	method, known := methods[r.URL.Path]
	allowed := []string{method}
	if method == http.MethodGet {
		allowed = append(allowed, http.MethodHead)
	}
	switch {
	case !known:
		http.Error(w, "there is GET /, GET /_stub/report, POST /_stub/phase?name=NAME and POST /_stub/start", http.StatusNotFound)
		return
	case !slices.Contains(allowed, r.Method):
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		http.Error(w, fmt.Sprintf("%s does nothing here; it is %s %s", r.Method, method, r.URL.Path), http.StatusMethodNotAllowed)
		return
	}
	switch r.URL.Path {
	case "/":
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		s.help(w)
	case "/_stub/report":
		lines := "1"
		if q := r.URL.Query(); q.Has("log") {
			lines = q.Get("log")
		}
		if lines != "0" && lines != "1" {
			http.Error(w, fmt.Sprintf("log=%q is unknown; write log=0 for the report without a line for each call, log=1 or nothing for all of it", lines),
				http.StatusBadRequest)
			return
		}
		report := s.book.report(lines == "1")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(report)
	case "/_stub/phase":
		name := r.URL.Query().Get("name")
		if i, err := s.scenario.Find(name); err == nil && inside && s.scenario.Phases[i].Refuses() {
			http.Error(w, fmt.Sprintf("phase %q closes this port, and nobody could switch back here; start the stub with -control, and switch there", name),
				http.StatusConflict)
			return
		}
		s.told(w, s.SetPhase(name))
	case "/_stub/start":
		s.told(w, s.Restart())
	}
}

// told answers a request that changed something, or didn't.
func (s *Server) told(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	span, _ := s.book.span()
	fmt.Fprintln(w, span)
}

func (s *Server) help(w http.ResponseWriter) {
	span, _ := s.book.span()
	fmt.Fprintf(w, `A fault-injecting HTTP dependency. Now: %v

%s
The scenario:

%s
Calls: every method and path but those below. The record is the header X-Record, or the path ("/charge/orders/0/17" is record "orders/0/17");
the attempt is ?attempt=n or the header X-Attempt. An answer with the header %s tells the caller to die on the spot.

  GET  /                       this page
  GET  /_stub/report           the report as JSON, a line for each call; ?log=0 without these
  POST /_stub/phase?name=NAME  switch to a phase, until the next switch
  POST /_stub/start            start the schedule, from the first phase
`, span, s.book.report(false), indent(s.scenario.String()), DieHeader)
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n"
}

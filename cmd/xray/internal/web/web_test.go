package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// handOver serves the trace at its secret path only, to the Perfetto UI.
func TestHandOver(t *testing.T) {
	fetched := 0
	handler := handOver("/secret/trace.gz", []byte("trace"), func() { fetched++ })
	ask := func(method, path string) *http.Response {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
		return w.Result()
	}
	if r := ask(http.MethodGet, "/trace.gz"); r.StatusCode != http.StatusNotFound || fetched != 0 {
		t.Errorf("GET of another path: %s", r.Status)
	}
	// The UI first asks whether a trace processor is listening here.
	if r := ask(http.MethodPost, "/status"); r.StatusCode != http.StatusNotFound || r.Header.Get("Access-Control-Allow-Origin") != "" || fetched != 0 {
		t.Errorf("POST of /status: %s, %v", r.Status, r.Header)
	}
	if r := ask(http.MethodHead, "/secret/trace.gz"); r.StatusCode != http.StatusOK || fetched != 0 {
		t.Errorf("HEAD of the trace: %s, fetched %d times", r.Status, fetched)
	}
	if r := ask(http.MethodGet, "/secret/trace.gz"); r.StatusCode != http.StatusOK || fetched != 1 ||
		r.Header.Get("Access-Control-Allow-Origin") != "https://ui.perfetto.dev" {
		t.Errorf("GET of the trace: %s, %v", r.Status, r.Header)
	}
}

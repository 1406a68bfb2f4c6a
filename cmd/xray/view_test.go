package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// The Perfetto UI may read the trace, once it knows its path, and nobody else.
func TestHandOver(t *testing.T) {
	fetched := 0
	handler := handOver("/secret/trace.gz", []byte("trace"), func() { fetched++ })
	get := func(path string) *http.Response {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Result()
	}
	if r := get("/trace.gz"); r.StatusCode != http.StatusNotFound || fetched != 0 {
		t.Errorf("another path: %s", r.Status)
	}
	if r := get("/secret/trace.gz"); r.StatusCode != http.StatusOK || fetched != 1 ||
		r.Header.Get("Access-Control-Allow-Origin") != "https://ui.perfetto.dev" {
		t.Errorf("the trace: %s, %v", r.Status, r.Header)
	}
}

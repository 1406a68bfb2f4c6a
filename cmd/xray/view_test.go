package main

import (
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
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

// If another program has the port that the Perfetto UI needs, view reports it before it does any
// work.
func TestViewWithoutPort(t *testing.T) {
	for start := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		listener, err := net.Listen("tcp", perfettoAddress)
		if err == nil {
			defer listener.Close()
			break
		}
		if time.Since(start) > 3*time.Minute { // other tests use the port for seconds
			t.Fatal(err)
		}
	}
	o := runHere("xray", "view", "--perfetto", filepath.Join("..", "..", "testdata", "kvserver-fdr.xray"))
	if o.status != exitFailed || !strings.Contains(o.stderr, "127.0.0.1:9001") || !strings.Contains(o.stderr, "convert -f perfetto") {
		t.Errorf("%v", o)
	}
}

func TestViewRefusesFlagsOfThePage(t *testing.T) {
	for _, flag := range []string{"--title=x", "--source"} {
		if o := runHere("xray", "view", "--perfetto", flag, "trace"); o.status != exitUsage || !strings.Contains(o.stderr, "--perfetto") {
			t.Errorf("%s: %v", flag, o)
		}
	}
}

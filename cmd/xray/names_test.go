package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/testenv"
	"github.com/xray-tools/xray/symbolize"
)

// Debug information that is nowhere else comes from a debuginfod server, if the
// environment names one.
func TestDebuginfod(t *testing.T) {
	testenv.Need(t, "strip")
	whole := filepath.Join("..", "..", "testdata", "kvserver")
	stripped := filepath.Join(t.TempDir(), "kvserver")
	if out, err := exec.Command("strip", "-s", "-o", stripped, whole).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	table, err := symbolize.Load(whole, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	id := table.Object().BuildID
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path != "/buildid/"+id+"/debuginfo" {
			http.NotFound(w, r)
			return
		}
		http.ServeFile(w, r, whole)
	}))
	defer server.Close()
	ask := func() string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if status := run([]string{"xray", "symbolize", "-m", stripped, "1"}, strings.NewReader(""), &stdout, &stderr); status != 0 || stderr.Len() > 0 {
			t.Fatalf("status %d: %s", status, stderr.String())
		}
		return stdout.String()
	}
	cache := t.TempDir()
	t.Setenv("DEBUGINFOD_CACHE_PATH", cache)
	t.Setenv("DEBUGINFOD_URLS", "")
	if got := ask(); got != "@(11c20)\n" || asked != 0 {
		t.Errorf("without a server: %q after %d questions", got, asked)
	}
	t.Setenv("DEBUGINFOD_URLS", server.URL)
	for range 2 {
		if got, want := ask(), "kv::reject(int) at ./src/kvserver.cc:91:0\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if asked != 1 {
		t.Errorf("the server was asked %d times, want once", asked)
	}
	if _, err := os.Stat(filepath.Join(cache, id, "debuginfo")); err != nil {
		t.Error(err)
	}
}

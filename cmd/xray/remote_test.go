package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// store is an object store. It breaks each connection after some bytes.
type store struct {
	most    int
	objects map[string][]byte
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, ok := s.objects[r.URL.Path]
	if !ok || r.URL.RawQuery != "X-Signature=secret" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("ETag", `"1"`)
	if len(data) < 1<<20 {
		w = &breaking{ResponseWriter: w, left: s.most}
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
}

type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) > b.left {
		b.ResponseWriter.Write(p[:b.left])
		b.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	b.left -= len(p)
	return b.ResponseWriter.Write(p)
}

// xray reads traces from URLs as from files. No output has the signature of a URL.
func TestURLs(t *testing.T) {
	read := func(name string) []byte {
		b, err := os.ReadFile(filepath.Join("../../testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(read("kvserver-fdr.xray")); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	big := make([]byte, 30<<20)
	copy(big, read("kvserver-fdr.xray"))
	objects := map[string][]byte{
		"/a.xray": read("kvserver-fdr.xray"), "/a.xray.gz": packed.Bytes(), "/p.xray": read("clang22-profiling.xray"),
		"/cut.gz": packed.Bytes()[:packed.Len()/2], "/other": read("kvserver"), "/big": big,
	}
	s := httptest.NewServer(&store{40_000, objects})
	t.Cleanup(s.Close)
	dir, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	xray := func(fails bool, args ...string) string {
		t.Helper()
		for i, arg := range args {
			if strings.HasPrefix(arg, "/") && !strings.HasPrefix(arg, dir) {
				args[i] = s.URL + arg + "?X-Signature=secret"
			}
		}
		out, err := exec.Command("xray", args...).CombinedOutput()
		if (err != nil) != fails || strings.Contains(string(out), "secret") {
			t.Errorf("xray %s: %v: %s", strings.Join(args, " "), err, out)
		}
		return strings.ReplaceAll(string(out), s.URL+"/", "")
	}
	binary := filepath.Join(dir, "kvserver")
	local := xray(false, "account", "-m", binary, filepath.Join(dir, "kvserver-fdr.xray"))
	for _, path := range []string{"/a.xray", "/a.xray.gz"} {
		if got := xray(false, "account", "-m", binary, path); got != local {
			t.Errorf("%s: %s, want %s", path, got, local)
		}
	}
	if got := xray(false, "info", "/a.xray"); !strings.HasPrefix(got, "a.xray\n") {
		t.Errorf("info: %s", got)
	}
	xray(false, "diff", "/a.xray", "--", "/a.xray")
	xray(false, "diff", "--format", "json", "/a.xray", "--", "/a.xray.gz")
	xray(false, "account", "/p.xray", "/p.xray", "--format", "json")
	xray(false, "why", "--root", "handle", "-m", binary, "/a.xray")
	// Summaries, too, next to traces.
	t.Chdir(t.TempDir())
	one, both := "one", "both"
	xray(false, "summarize", "-m", binary, "-o", one, filepath.Join(dir, "kvserver-fdr.xray"))
	if objects["/s.parquet"], err = os.ReadFile(one); err != nil {
		t.Fatal(err)
	}
	xray(false, "summarize", "-m", binary, "-o", both, "/s.parquet", "/a.xray", "/a.xray.gz", "/s.parquet")
	want := xray(false, "account", one, one, one, one)
	if got := xray(false, "account", both); got != want {
		t.Errorf("summaries and traces: %s, want %s", got, want)
	}
	for args, want := range map[string]string{
		"account /missing":           "missing: the server answers 403 Forbidden: has the URL expired?",
		"account /other":             "other: offset 0x0: not an XRay trace",
		"why --root x /s.parquet":    "s.parquet is a summary, but why needs individual calls",
		"fdr-dump /p.xray":           "p.xray: a profile has no individual records",
		"merge-sched /a.xray x -o x": "a.xray: not a trace from xray's recorder",
	} {
		if got := xray(true, strings.Fields(args)...); !strings.Contains(got, want) {
			t.Errorf("%s: %s, want %q", args, got, want)
		}
	}
	// A damaged file on the server is a loss, as on disk. A file beyond the limit is an error.
	if got := xray(false, "account", "/cut.gz"); !strings.Contains(got, "truncated-file") {
		t.Errorf("cut.gz: %s", got)
	}
	t.Setenv("XRAY_SPOOL_LIMIT", "20M")
	if got := xray(true, "account", "/big"); !strings.Contains(got, "big: spooling to ") || !strings.Contains(got, "more than 20971520 bytes") {
		t.Errorf("big: %s", got)
	}
}

// A trace that changes, or arrives incomplete, is an error.
func TestURLErrors(t *testing.T) {
	data, err := os.ReadFile("../../testdata/kvserver-fdr.xray")
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		w.Header().Set("ETag", fmt.Sprintf(`"%d"`, requests))
		http.ServeContent(&breaking{ResponseWriter: w, left: 40_000}, r, "", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(s.Close)
	out, err := exec.Command("xray", "account", s.URL+"/a.xray?secret").CombinedOutput()
	if want := "xray: " + s.URL + "/a.xray: the file changed while it was fetched\n"; err == nil || string(out) != want {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

// Each of several URLs is fetched once, although xray looks at all of them before it reads one.
func TestURLsOnce(t *testing.T) {
	var data [2][]byte
	for i, name := range []string{"kvserver-fdr.xray", "kvserver-basic.xray"} {
		var err error
		if data[i], err = os.ReadFile(filepath.Join("../../testdata", name)); err != nil {
			t.Fatal(err)
		}
	}
	var mu sync.Mutex
	requests := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		requests[r.URL.Path]++
		w.Header().Set("ETag", `"1"`)
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data[len(requests)%2]))
	}))
	t.Cleanup(s.Close)
	out, err := exec.Command("xray", "account", s.URL+"/a", s.URL+"/b", s.URL+"/c", s.URL+"/d").CombinedOutput()
	if want := map[string]int{"/a": 1, "/b": 1, "/c": 1, "/d": 1}; err != nil || !maps.Equal(requests, want) {
		t.Errorf("%v: %s; requests are %v, want %v", err, out, requests, want)
	}
}

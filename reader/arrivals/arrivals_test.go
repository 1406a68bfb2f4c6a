package arrivals_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xray-tools/xray/reader/arrivals"
)

const magic = "XSUM"

// program is what Inputs wants of a program.
type program struct {
	arrivals.Inputs
	stdin  io.Reader
	atEnd  []func() error
	events []string // of the display of progress
}

func newProgram(t *testing.T, stdin io.Reader) *program {
	p := &program{stdin: stdin}
	p.Magic, p.Stdin = magic, &p.stdin
	p.AtEnd = func(f func() error) { p.atEnd = append(p.atEnd, f) }
	p.Progress = func(what string, _ interface{ Progress() (done, size int64) }) func() {
		p.events = append(p.events, what)
		return func() { p.events = append(p.events, "end") }
	}
	t.Cleanup(func() {
		for _, f := range p.atEnd {
			if err := f(); err != nil {
				t.Error(err)
			}
		}
	})
	return p
}

func (p *program) begins(t *testing.T, path string, want bool) {
	t.Helper()
	for range 2 { // the second time, nothing is read
		if got, err := p.Begins(path); got != want || err != nil {
			t.Errorf("%s: got begins %v, %v; want %v", path, got, err, want)
		}
	}
}

// opens checks that a kept input has the same content however often it is opened.
func (p *program) opens(t *testing.T, path, want string) {
	t.Helper()
	for range 2 {
		r, size, closer, err := p.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(io.NewSectionReader(r, 0, size))
		if string(got) != want || err != nil {
			t.Errorf("%s: got %q, %v; want %q", path, got, err, want)
		}
		if err := closer.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	p := newProgram(t, nil)
	paths := make(map[string]string)
	for name, content := range map[string]string{"summary": magic + " and more", "trace": "something else", "short": magic[:3], "empty": ""} {
		paths[name] = filepath.Join(dir, name)
		if err := os.WriteFile(paths[name], []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p.begins(t, paths[name], name == "summary")
	}
	p.begins(t, dir, false)
	p.begins(t, filepath.Join(dir, "missing"), false)
	p.opens(t, paths["summary"], magic+" and more")
	if got, err := p.Any([]string{paths["short"], paths["trace"], paths["summary"]}); got != paths["summary"] || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := p.Any([]string{paths["short"], paths["trace"]}); got != "" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, _, _, err := p.Open(filepath.Join(dir, "missing")); err == nil {
		t.Error("a missing file was opened")
	}
}

// No byte of standard input is lost by the look at its beginning.
func TestStandardInput(t *testing.T) {
	summary := magic + strings.Repeat(" long", 20_000)
	p := newProgram(t, io.MultiReader(strings.NewReader(summary[:2]), strings.NewReader(summary[2:])))
	p.begins(t, "-", true)
	p.opens(t, "-", summary)
	if len(p.atEnd) != 1 {
		t.Errorf("got %d functions for the end, want one that removes the copy", len(p.atEnd))
	}

	for _, other := range []string{"", "XS", "a trace"} {
		p := newProgram(t, strings.NewReader(other))
		p.begins(t, "-", false)
		if got, err := io.ReadAll(p.stdin); string(got) != other || err != nil {
			t.Errorf("got %q, %v from standard input; want %q", got, err, other)
		}
	}

	// A file stays one, so that it can be mapped.
	path := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(path, []byte("a trace"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p = newProgram(t, f)
	p.begins(t, "-", false)
	if p.stdin != io.Reader(f) {
		t.Errorf("got %T as standard input", p.stdin)
	}
	if at, err := f.Seek(0, io.SeekCurrent); at != 0 || err != nil {
		t.Errorf("got offset %d, %v", at, err)
	}
}

// server counts the requests for its files.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests map[string]int
}

// newServer serves files of the content "a trace NAME", or with magic for names that begin with summary. The server
// says which version of a file it sends if the name ends with versioned.
func newServer(t *testing.T) *server {
	s := &server{requests: make(map[string]int)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests[r.URL.Path]++
		s.mu.Unlock()
		if strings.HasSuffix(r.URL.Path, "versioned") {
			w.Header().Set("ETag", `"1"`)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader([]byte(content(r.URL.Path))))
	}))
	t.Cleanup(s.Close)
	return s
}

func content(path string) string {
	if strings.HasPrefix(path, "/summary") {
		return magic + path
	}
	return "a trace " + path
}

func (s *server) asked(t *testing.T, path string, want int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.requests[path]; got != want {
		t.Errorf("%s: got %d requests, want %d", path, got, want)
	}
}

func (p *program) fetches(t *testing.T, s *server, path string) {
	t.Helper()
	name, stream, err := p.Fetch(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(stream); string(got) != content(path) || err != nil || name != s.URL+path {
		t.Errorf("got %q with %q, %v", name, got, err)
	}
	if err := stream.Close(); err != nil {
		t.Error(err)
	}
}

// A file is fetched once, whoever reads it.
func TestURLs(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := newProgram(t, nil)
	p.begins(t, s.URL+"/summary", true)
	p.opens(t, s.URL+"/summary", content("/summary"))
	s.asked(t, "/summary", 1)

	p.begins(t, s.URL+"/trace", false)
	p.fetches(t, s, "/trace")
	s.asked(t, "/trace", 1)
	p.fetches(t, s, "/trace") // it is gone
	s.asked(t, "/trace", 2)

	if name, stream, err := p.Fetch("file"); name != "" || stream != nil || err != nil {
		t.Errorf("got %q, %v, %v for a file", name, stream, err)
	}
	if _, err := p.Begins("http://127.0.0.1:1/"); err == nil {
		t.Error("got no error for a server that does not exist")
	}
	want := fmt.Sprintf("[fetching %[1]s/summary end fetching %[1]s/trace end fetching %[1]s/trace end]", s.URL)
	if got := fmt.Sprint(p.events); got != want {
		t.Errorf("got progress %s, want %s", got, want)
	}
}

// While a connection waits, others wait only if they can be continued when they break, and not too many of them.
func TestWaiting(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := newProgram(t, nil)
	paths := []string{"/first", "/second", "/third-versioned"}
	for i := range 62 {
		paths = append(paths, fmt.Sprintf("/%d-versioned", i))
	}
	paths = append(paths, "/65-versioned")
	for _, path := range paths {
		p.begins(t, s.URL+path, false)
	}
	for _, path := range paths {
		p.fetches(t, s, path)
		want := 1
		if path == "/second" || path == "/65-versioned" {
			want = 2
		}
		s.asked(t, path, want)
	}
}

package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var quick = Options{Stall: 5 * time.Second, Pause: time.Millisecond}

// file is a file on a server that can answer each request differently.
type file struct {
	data     []byte
	etag     string
	ranges   bool
	requests atomic.Int64
	// trouble is called with the number of a request, and reports whether it has answered it.
	trouble func(n int64, w http.ResponseWriter, r *http.Request) bool
}

func (f *file) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := f.requests.Add(1)
	if f.trouble != nil && f.trouble(n, w, r) {
		return
	}
	if f.etag != "" {
		w.Header().Set("ETag", f.etag)
	}
	if !f.ranges {
		r.Header.Del("Range")
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}

// cut sends the first bytes of the requested range, and breaks the connection.
func (f *file) cut(w http.ResponseWriter, r *http.Request, bytes int) {
	from := 0
	if f.etag != "" {
		w.Header().Set("ETag", f.etag)
	}
	if _, err := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); err == nil && f.ranges {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(f.data)-1, len(f.data)))
		w.Header().Set("Content-Length", fmt.Sprint(len(f.data)-from))
		w.WriteHeader(http.StatusPartialContent)
	} else {
		from = 0
		w.Header().Set("Content-Length", fmt.Sprint(len(f.data)))
	}
	w.Write(f.data[from:min(from+bytes, len(f.data))])
	w.(http.Flusher).Flush()
	if from+bytes < len(f.data) {
		panic(http.ErrAbortHandler)
	}
}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// fetch reads a file, and checks that errors do not have its signature.
func fetch(t *testing.T, ctx context.Context, url string) ([]byte, error) {
	t.Helper()
	s, err := Open(ctx, url, quick)
	var b []byte
	if err == nil {
		b, err = io.ReadAll(s)
		if !errors.Is(s.Err(), err) {
			t.Errorf("Err is %v after %v", s.Err(), err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if err != nil && (strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), Name(url))) {
		t.Errorf("error %q has the secret, or not the name %q", err, Name(url))
	}
	return b, err
}

func random(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestFetch(t *testing.T) {
	data := random(1 << 20)
	for _, f := range []*file{
		{ranges: true, etag: `"a"`},
		{},
		{trouble: func(_ int64, w http.ResponseWriter, _ *http.Request) bool { // no length
			w.(http.Flusher).Flush()
			w.Write(data)
			return true
		}},
		{data: []byte{}},
	} {
		if f.data == nil {
			f.data = data
		}
		got, err := fetch(t, t.Context(), serve(t, f)+"/t.xray?signature=secret")
		if err != nil || !bytes.Equal(got, f.data) || f.requests.Load() != 1 {
			t.Errorf("%d bytes in %d requests, %v", len(got), f.requests.Load(), err)
		}
	}
}

// A file arrives complete over any number of connections, if the server can prove that it is the
// same.
func TestResume(t *testing.T) {
	for _, ranges := range []bool{true, false} {
		f := &file{data: random(1 << 20), etag: `"a"`, ranges: ranges}
		f.trouble = func(n int64, w http.ResponseWriter, r *http.Request) bool {
			switch {
			case n == 3:
				w.WriteHeader(http.StatusServiceUnavailable)
			case n > 1 && r.Header.Get("If-Range") != f.etag:
				t.Errorf("request %d: If-Range is %q", n, r.Header.Get("If-Range"))
			default:
				f.cut(w, r, int(n)*100_000)
			}
			return true
		}
		got, err := fetch(t, t.Context(), serve(t, f)+"/t.xray?signature=secret")
		if err != nil || !bytes.Equal(got, f.data) || f.requests.Load() < 4 {
			t.Errorf("ranges %v: %d bytes in %d requests, %v", ranges, len(got), f.requests.Load(), err)
		}
	}
}

func TestStall(t *testing.T) {
	f := &file{data: random(200_000), etag: `"a"`, ranges: true}
	f.trouble = func(n int64, w http.ResponseWriter, r *http.Request) bool {
		if n > 1 {
			return false
		}
		w.Header().Set("ETag", f.etag)
		w.Header().Set("Content-Length", fmt.Sprint(len(f.data)))
		w.Write(f.data[:1000])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	s, err := Open(t.Context(), serve(t, f), Options{Stall: 500 * time.Millisecond, Pause: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got, err := io.ReadAll(s); err != nil || !bytes.Equal(got, f.data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := &file{data: random(1000), etag: `"a"`, ranges: true}
	f.trouble = func(n int64, w http.ResponseWriter, r *http.Request) bool {
		w.Header().Set("Content-Length", "1000")
		w.Write(f.data[:10])
		w.(http.Flusher).Flush()
		cancel()
		<-r.Context().Done()
		return true
	}
	if got, err := fetch(t, ctx, serve(t, f)+"/a?secret"); !errors.Is(err, context.Canceled) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestFailures(t *testing.T) {
	data := random(300_000)
	for _, test := range []struct {
		name, want string
		file       *file
		// then answers requests after the first, which breaks after 1000 bytes.
		then func(f *file, w http.ResponseWriter, r *http.Request)
	}{
		{"changed", "the file changed while it was fetched", &file{etag: `"a"`, ranges: true}, func(f *file, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"b"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		}},
		{"changed without saying", "the file changed while it was fetched", &file{etag: `"a"`, ranges: true}, func(f *file, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"b"`)
			r.Header.Del("If-Range")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		}},
		{"longer", "continues with", &file{etag: `"a"`, ranges: true}, func(f *file, w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"a"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(random(400_000)))
		}},
		{"another range", "continues with", &file{etag: `"a"`, ranges: true}, func(f *file, w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Range", "bytes=5-")
			w.Header().Set("ETag", `"a"`)
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
		}},
		{"no proof", "does not say whether the file is still the same", &file{ranges: true}, nil},
		{"expired", "403 Forbidden: has the URL expired?", &file{etag: `"a"`, ranges: true}, func(f *file, w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}},
		{"broken after each byte", "6 attempts", &file{etag: `"a"`, ranges: true}, func(f *file, w http.ResponseWriter, r *http.Request) {
			f.cut(w, r, 1)
		}},
		{"broken for good", "6 attempts", &file{etag: `"a"`, ranges: true}, func(f *file, w http.ResponseWriter, r *http.Request) {
			panic(http.ErrAbortHandler)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := test.file
			f.data = data
			f.trouble = func(n int64, w http.ResponseWriter, r *http.Request) bool {
				if n == 1 {
					f.cut(w, r, 1000)
				}
				test.then(f, w, r)
				return true
			}
			got, err := fetch(t, t.Context(), serve(t, f)+"/t.xray?signature=secret")
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%d bytes, error %v, want %q", len(got), err, test.want)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	target := serve(t, &file{data: []byte("of another host")})
	mux := http.NewServeMux()
	base := serve(t, mux)
	to := func(path, location string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		})
	}
	to("/near", "/file?signature=secret")
	to("/loop", "/loop?secret")
	to("/other", target+"/x?secret=2")
	to("/scheme", "file:///etc/passwd")
	to("/metadata", "http://169.254.169.254/latest/secret?secret")
	mux.Handle("/file", &file{data: []byte("here")})
	if got, err := fetch(t, t.Context(), base+"/near"); string(got) != "here" || err != nil {
		t.Errorf("on the same host: %q, %v", got, err)
	}
	for path, want := range map[string]string{
		"/loop?secret":     "more than 5 redirects",
		"/other?secret":    "redirects to " + target + "/x, ",
		"/scheme?secret":   "redirects to file:",
		"/missing?secret":  "404 Not Found",
		"/metadata?secret": "redirects to http://169.254.169.254/",
	} {
		got, err := Open(t.Context(), base+path, quick)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(strings.ReplaceAll(err.Error(), "latest/secret", ""), "secret") {
			t.Errorf("%s: %v, error %v, want %q", path, got, err, want)
		}
	}
	for _, url := range []string{"http://secret@/", "http://[::1?secret", "http://127.0.0.1:1/a?secret"} {
		if _, err := Open(t.Context(), url, quick); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A redirect from https to http is refused, even on the same host.
func TestDowngrade(t *testing.T) {
	for _, test := range []struct {
		from, to string
		ok       bool
	}{
		{"https://h/a", "http://h/a", false},
		{"https://h/a", "https://h/b", true},
		{"https://h/a", "https://h:444/b", false},
		{"http://h/a", "https://h/a", true},
		{"http://h:8080/a", "https://h/a", false},
		{"http://h/a", "http://h:80/a", true},
		{"http://h/a", "//evil/a", false},
		{"http://h/a", "ftp://h/a", false},
	} {
		s := &Stream{url: must(t, test.from)}
		if err := s.redirect(test.to); (err == nil) != test.ok {
			t.Errorf("%s to %s: %v", test.from, test.to, err)
		}
	}
}

func TestName(t *testing.T) {
	for path, want := range map[string]string{
		"trace.xray": "trace.xray",
		"https://user:secret@h/a%20b.xray?X-Amz-Signature=secret#secret": "https://h/a%20b.xray",
		"HTTP://h:1/":           "http://h:1/",
		"http://h/%zz?secret":   "http://h/%zz",
		"http://u:secret@h/%zz": "http://h/%zz",
		"ftp://h/a?b":           "ftp://h/a?b",
	} {
		if got := Name(path); got != want {
			t.Errorf("%s is named %s, want %s", path, got, want)
		}
	}
}

func must(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

package debuginfod

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/xray-tools/xray/symbolize/debuginfo"
)

const id = "00112233445566778899aabbccddeeff00112233"

// serve starts a server, and returns a client for it and the number of requests.
func serve(t *testing.T, handle http.HandlerFunc) (*Client, *atomic.Int64) {
	t.Helper()
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		handle(w, r)
	}))
	t.Cleanup(s.Close)
	return &Client{Servers: []string{s.URL + "/"}, Cache: t.TempDir(), Timeout: time.Minute, Most: 1 << 20, Miss: time.Hour}, &asked
}

// build returns an ELF file of 600 kB with a build ID.
func build(t *testing.T, id string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(id)
	if err != nil {
		t.Fatal(err)
	}
	const headers = 64 + 56
	var b bytes.Buffer
	note := append(binary.LittleEndian.AppendUint32([]byte{4, 0, 0, 0}, uint32(len(raw))), "\x03\x00\x00\x00GNU\x00"...)
	note = append(note, raw...)
	for _, part := range []any{
		elf.Header64{Ident: [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}, Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1,
			Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1, Shentsize: 64},
		elf.Prog64{Type: uint32(elf.PT_NOTE), Off: headers, Filesz: uint64(len(note)), Memsz: uint64(len(note)), Align: 4},
		note, make([]byte, 600_000-headers-len(note)),
	} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func TestFetch(t *testing.T) {
	content := build(t, id)
	c, asked := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/buildid/"+id+"/debuginfo" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		w.Write(content)
	})
	var last [2]int64
	c.Progress = func(_ string, done, total int64) { last = [2]int64{done, total} }
	for range 2 { // the second time, from the cache
		path, err := c.Fetch(id, debuginfo.DebugInfo)
		if want := filepath.Join(c.Cache, id, "debuginfo"); err != nil || path != want {
			t.Fatalf("got %q, %v, want %q", path, err, want)
		}
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("got %d bytes, error %v, want %d", len(got), err, len(content))
		}
	}
	if n := int64(len(content)); last != [2]int64{n, n} {
		t.Errorf("progress ended at %v of %d", last, n)
	}
	for range 2 { // the second time, the miss is cached
		if path, err := c.Fetch(id, debuginfo.Executable); path != "" || err != nil {
			t.Errorf("got %q, error %v for a file that the server lacks", path, err)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("got %d requests, want 2", n)
	}
	c.Miss = 0
	if _, err := c.Fetch(id, debuginfo.Executable); err != nil || asked.Load() != 3 {
		t.Errorf("an expired miss: got error %v after %d requests, want 3", err, asked.Load())
	}
	entries, err := os.ReadDir(filepath.Join(c.Cache, id))
	if err != nil || len(entries) != 2 {
		t.Errorf("temporary files stayed in the cache: %v, %v", entries, err)
	}
}

func TestFetchFails(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(build(t, id)) }))
	t.Cleanup(other.Close)
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	for _, c := range []struct {
		name   string
		handle http.HandlerFunc
		want   string
	}{
		{"error", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "502 Bad Gateway"},
		{"empty", func(http.ResponseWriter, *http.Request) {}, "empty file"},
		{"another build", func(w http.ResponseWriter, _ *http.Request) { w.Write(build(t, "0123")) }, "a file with build ID 0123"},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("<html>")) }, "not a debug file"},
		{"too large", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1048577")
			w.WriteHeader(http.StatusOK)
		}, "1048577 bytes, more than 1048576: to allow more, set DEBUGINFOD_MAXSIZE"},
		{"too large without a size", func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			w.Write(make([]byte, 1<<20+1))
		}, "more than 1048576 bytes"},
		{"another host", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, other.URL+"/x", http.StatusFound)
		}, "does not follow"},
		{"cut", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			w.Write([]byte("some"))
		}, "/debuginfo: unexpected EOF"},
		{"silent", func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-never:
			case <-r.Context().Done():
			}
		}, "DEBUGINFOD_TIMEOUT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, _ := serve(t, c.handle)
			if c.name == "silent" {
				client.Timeout = 10 * time.Millisecond
			}
			path, err := client.Fetch(id, debuginfo.DebugInfo)
			if path != "" || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q, %v, want an error about %q", path, err, c.want)
			}
			if entries, _ := os.ReadDir(filepath.Join(client.Cache, id)); len(entries) != 0 {
				t.Errorf("files stayed in the cache: %v", entries)
			}
			// With hundreds of shared objects, the client must not wait for a silent
			// server each time.
			_, err = client.Fetch(id, debuginfo.DebugInfo)
			if err == nil || strings.Contains(err.Error(), "skipped because") != (c.name == "silent") {
				t.Errorf("second request: got error %v", err)
			}
		})
	}
	client, asked := serve(t, func(http.ResponseWriter, *http.Request) {})
	if _, err := client.Fetch("../../etc/passwd", debuginfo.DebugInfo); err == nil || asked.Load() != 0 {
		t.Errorf("build ID that is a path: got error %v after %d requests", err, asked.Load())
	}
}

func TestFromEnvironment(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("DEBUGINFOD_CACHE_PATH", "")
	t.Setenv("DEBUGINFOD_TIMEOUT", "")
	t.Setenv("DEBUGINFOD_URLS", " ")
	if c := FromEnvironment(); c != nil {
		t.Errorf("without servers: got client %+v", c)
	}
	t.Setenv("DEBUGINFOD_URLS", "http://a https://b/")
	check := func(cache string, timeout time.Duration) {
		t.Helper()
		c := FromEnvironment()
		if len(c.Servers) != 2 || c.Cache != cache || c.Timeout != timeout {
			t.Errorf("got %+v, want cache %s, timeout %v", c, cache, timeout)
		}
	}
	check(filepath.Join(home, ".cache/debuginfod_client"), defaultTimeout)
	t.Setenv("XDG_CACHE_HOME", "/xdg")
	t.Setenv("DEBUGINFOD_TIMEOUT", "7")
	check("/xdg/debuginfod_client", 7*time.Second)
	if err := os.Mkdir(filepath.Join(home, ".debuginfod_client_cache"), 0o700); err != nil {
		t.Fatal(err)
	}
	check(filepath.Join(home, ".debuginfod_client_cache"), 7*time.Second)
	t.Setenv("DEBUGINFOD_CACHE_PATH", "/elsewhere")
	check("/elsewhere", 7*time.Second)
}

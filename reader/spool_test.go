package reader_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// endless repeats text and counts the bytes read.
type endless struct {
	start, text string
	read        int
	limit       int // reading more is an error
}

var errTooMuch = errors.New("too much was read")

func (e *endless) Read(p []byte) (int, error) {
	if e.read > e.limit {
		return 0, errTooMuch
	}
	n := copy(p, e.start)
	e.start = e.start[n:]
	for n < len(p) {
		n += copy(p[n:], e.text)
	}
	e.read += n
	return n, nil
}

// A stream that is not a trace is refused from its first bytes, before it fills the disk.
func TestStreamsOfStrangers(t *testing.T) {
	for name, e := range map[string]*endless{
		"zeros":  {text: "\x00"},
		"text":   {text: "all work and no play\n"},
		"binary": {start: "PK\x03\x04", text: "\x00\xff"},
		"spaces": {text: " "},
	} {
		e.limit = 1 << 20
		_, err := reader.Open(reader.Options{Stdin: e}, "-")
		if !errors.Is(err, reader.ErrNotTrace) || errors.Is(err, errTooMuch) {
			t.Errorf("%s: got error %v after %d bytes", name, err, e.read)
		}
	}
	for name, pack := range packers(t) {
		packed := &endless{text: "\x00", limit: 64 << 20}
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, pack(io.LimitReader(packed, 64<<20)), 0o666); err != nil {
			t.Fatal(err)
		}
		t.Setenv("TMPDIR", "/does/not/exist") // nothing is spooled
		if _, err := reader.Open(reader.Options{}, path); !errors.Is(err, reader.ErrNotTrace) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	if _, err := reader.OpenInput("-", &endless{text: "core?", limit: 1 << 20}, "\x7fELF"); err == nil || !strings.Contains(err.Error(), "not a file of the expected kind") {
		t.Errorf("core file: got error %v", err)
	}
}

// packers compress a stream.
func packers(t *testing.T) map[string]func(io.Reader) []byte {
	by := func(open func(io.Writer) io.WriteCloser) func(io.Reader) []byte {
		return func(r io.Reader) []byte {
			var b bytes.Buffer
			w := open(&b)
			if _, err := io.Copy(w, r); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		}
	}
	return map[string]func(io.Reader) []byte{
		"gzip": by(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }),
		"zstd": by(func(w io.Writer) io.WriteCloser {
			z, err := zstd.NewWriter(w)
			if err != nil {
				t.Fatal(err)
			}
			return z
		}),
	}
}

// A stream that begins like a trace is spooled up to a limit.
func TestSpoolLimit(t *testing.T) {
	head, err := tracetext.Parse("xray basic\n")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(reader.SpoolLimitVariable, "40M")
	e := &endless{start: string(head), text: "\x00", limit: 64 << 20}
	_, err = reader.Open(reader.Options{Stdin: e}, "-")
	if err == nil || errors.Is(err, errTooMuch) || !strings.Contains(err.Error(), "more than 41943040 bytes: unpack it") {
		t.Errorf("got error %v after %d bytes", err, e.read)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("files left behind: %v, %v", left, err)
	}
	t.Setenv(reader.SpoolLimitVariable, "100M")
	trace, err := reader.Open(reader.Options{Stdin: io.LimitReader(&endless{start: string(head), text: "\x00", limit: 64 << 20}, 48<<20)}, "-")
	if err != nil {
		t.Fatal(err)
	}
	if trace.Size(0) != 48<<20 {
		t.Errorf("got %d bytes", trace.Size(0))
	}
	if err := trace.Close(); err != nil {
		t.Error(err)
	}
	t.Setenv(reader.SpoolLimitVariable, "much")
	e = &endless{start: string(head), text: "\x00", limit: 64 << 20}
	if _, err = reader.Open(reader.Options{Stdin: e}, "-"); err == nil || !strings.Contains(err.Error(), "must be a number") {
		t.Error(err)
	}
}

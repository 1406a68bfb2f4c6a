package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// FuzzAccount turns any bytes that open as a trace into every output. Two shards must give the
// same as one, outputs must be well-formed, and rewritten traces must have the same contents.
func FuzzAccount(f *testing.F) {
	files, err := filepath.Glob(filepath.Join(testdata, "*.xray"))
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && len(b) < 20_000 {
			f.Add(b)
		}
	}
	f.Add([]byte("---\nheader:\n  version: 3\n  type: 0\n  constant-tsc: true\n  nonstop-tsc: true\n  cycle-frequency: 0\nrecords:\n" +
		"  - { type: 0, func-id: 3, args: [ 100 ], cpu: 0, thread: 7, process: 7, kind: function-enter-arg, tsc: 1000, data: '' }\n" +
		"  - { type: 9, func-id: 3, cpu: 0, thread: 7, process: 7, kind: typed-event, tsc: 1001, data: \"a\\0\\xff\" }\n...\n"))
	p := loadProgram(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		tr := open(t, data)
		if tr == nil {
			return
		}
		one := render(t, tr, tr, 1, p)
		same := func(how string, other map[string][]byte) {
			for name, b := range other {
				if !bytes.Equal(one[name], b) {
					t.Errorf("%s: one shard gave\n%s\n%s gave\n%s", name, one[name], how, b)
				}
			}
		}
		same("two shards", render(t, tr, tr, 2, p))
		same("decoded events", render(t, tr, decoded{tr}, 1, p))
		stream(t, tr)
		timelines(t, tr, p)
		rewrite(t, tr)
	})
}

func open(t testing.TB, data []byte) *reader.Trace {
	tr, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "fuzz")
	if err != nil {
		return nil
	}
	if tr.Header(0).CycleFrequency > 1<<40 {
		return nil // no clock is that fast, and decimals get long
	}
	return tr
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// decoded is a trace that passes on no packed records.
type decoded struct{ tr *reader.Trace }

func (d decoded) Each(n int, fn func(int, *reader.Block) error) error { return d.tr.Each(n, fn) }

// blockWriter is a writer of trace formats.
type blockWriter interface {
	Block(*reader.Block) error
	Close() error
}

// rewrite writes the trace in every trace format, reads it back and compares.
func rewrite(t testing.TB, tr *reader.Trace) {
	header := tr.Header(0)
	if header.Type == reader.Profiling {
		return // there are no records
	}
	type sum struct {
		events, tsc, funcs uint64
		args, payload      int
		zero               bool // function 0, which an FDR log cannot distinguish from padding
	}
	total := func(tr *reader.Trace) (s sum) {
		for b, err := range tr.Blocks(reader.ThreadOrder) {
			must(t, err)
			for _, e := range b.Events {
				s.events++
				s.tsc += e.TSC
				if e.Kind == reader.Custom || e.Kind == reader.Typed {
					continue // the function is that of the previous record, which may be lost
				}
				s.funcs += uint64(uint32(e.Func))
				s.zero = s.zero || e.Func == 0
			}
			s.args += len(b.Args)
			for _, p := range b.Payloads {
				s.payload += len(p.Data)
			}
		}
		return s
	}
	want := total(tr)
	again := func(name string, w blockWriter, buf *bytes.Buffer, dropped func() bool) {
		for b, err := range tr.Blocks(reader.ThreadOrder) {
			must(t, err)
			must(t, w.Block(b))
		}
		must(t, w.Close())
		if dropped() {
			return
		}
		back, err := reader.OpenReaderAt(bytes.NewReader(buf.Bytes()), int64(buf.Len()), name)
		must(t, err)
		if got := total(back); got != want || back.Losses().Count() > 0 {
			t.Errorf("%s: wrote %+v, read back %+v", name, want, got)
		}
	}
	var buf bytes.Buffer
	again("yaml", convert.NewYAML(&buf, convert.Options{Header: header}), &buf, func() bool { return false })
	buf.Reset()
	fdr := tracewrite.NewFDR(&buf, header, tracewrite.Options{})
	again("fdr", fdr, &buf, func() bool { return fdr.Dropped > 0 || fdr.TruncatedIDs > 0 || want.zero })
}

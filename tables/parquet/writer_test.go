package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	pq "github.com/parquet-go/parquet-go"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/args/value"
	"github.com/xray-tools/xray/tables"
	"github.com/xray-tools/xray/tables/parquetfile"
)

// files has the files that a writer creates.
type files struct {
	mu   sync.Mutex
	list map[string]*file
	left int // bytes that can still be written; -1 for no limit
}

type file struct {
	bytes.Buffer
	of     *files
	closed int
}

var errFull = errors.New("no space left")

func (f *files) create(path string) (io.WriteCloser, error) {
	if f.list == nil {
		f.list = map[string]*file{}
	}
	f.list[path] = &file{of: f}
	return f.list[path], nil
}

func (f *file) Write(p []byte) (int, error) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.of.left >= 0 {
		if f.of.left -= len(p); f.of.left < 0 {
			f.of.left = 0
			return 0, errFull
		}
	}
	return f.Buffer.Write(p)
}

func (f *file) Close() error {
	f.closed++
	return nil
}

// span is the time of the calls of feed, in ticks.
const span = 16_000_000

func options(f *files, workers int) Options {
	return Options{
		Source: tables.Source{Clock: reader.Clock{Frequency: 3e9}, Base: 1000, OffCPU: true},
		Create: f.create, Trace: "t", CreatedBy: "test", Last: 1000 + span, Workers: workers,
	}
}

// feed passes to a writer the calls of five threads. The first thread makes most of them, in the
// first sixteenth of the time.
func feed(w *Writer) (rows int, err error) {
	rng := rand.New(rand.NewPCG(1, 2))
	paths := calls.NewPaths()
	for index := range 5 {
		n, until := 20_000, uint64(span)
		if index == 0 {
			n, until = 300_000, span/buckets
		}
		b := &calls.Batch{Thread: reader.Thread{Process: 7, Thread: int32(8 + index)}, Index: index, Paths: paths}
		for i := range n {
			fn := reader.FuncID(1 + rng.IntN(300))
			c := calls.Call{
				Start: 1000 + uint64(i)*until/uint64(n), Duration: rng.Uint64N(1 << rng.IntN(12)), Func: fn, Path: paths.Child(0, fn),
			}
			c.Self = c.Duration
			if i%100 == 0 {
				c.Args = true
				b.Args = append(b.Args, calls.Arg{Call: len(b.Calls), Value: rng.Uint64()})
				b.Waits = append(b.Waits, calls.Wait{Call: len(b.Calls), Self: calls.Off{Blocked: c.Self}, Total: calls.Off{Blocked: c.Self}})
			}
			b.Calls = append(b.Calls, c)
			rows++
			if len(b.Calls) == 512 || i == n-1 {
				if err := w.Calls(b); err != nil {
					return rows, err
				}
				b.Calls, b.Args, b.Waits = b.Calls[:0], b.Args[:0], b.Waits[:0]
			}
		}
	}
	return rows, nil
}

func written(t *testing.T, workers int, partRows int64) *files {
	t.Helper()
	f := &files{left: -1}
	w := New(options(f, workers))
	if partRows > 0 {
		w.partRows = partRows
	}
	if _, err := feed(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(&tables.Trace{Stats: &calls.Stats{}}); err != nil {
		t.Fatal(err)
	}
	for path, file := range f.list {
		if file.closed != 1 {
			t.Errorf("%s was closed %d times", path, file.closed)
		}
	}
	return f
}

// The bytes do not depend on the number of goroutines.
func TestSameBytes(t *testing.T) {
	one, four := written(t, 1, 0), written(t, 4, 0)
	if a, b := slices.Sorted(maps.Keys(one.list)), slices.Sorted(maps.Keys(four.list)); !slices.Equal(a, b) || len(a) != len(tables.All) {
		t.Fatal(a, b)
	}
	for path, file := range one.list {
		if !bytes.Equal(file.Bytes(), four.list[path].Bytes()) {
			t.Errorf("%s differs", path)
		}
	}
}

// rowGroup describes a row group by the file's metadata.
type rowGroup struct{ rows, first, last int64 }

func groupsOf(t *testing.T, data []byte) (list []rowGroup) {
	t.Helper()
	f, err := pq.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range f.RowGroups() {
		column := slices.IndexFunc(tables.Calls.InFiles(), func(c parquetfile.Column) bool { return c.Name == "start" })
		low, high, ok := g.ColumnChunks()[column].(*pq.FileColumnChunk).Bounds()
		if !ok {
			t.Fatal("no bounds")
		}
		list = append(list, rowGroup{g.NumRows(), low.Int64(), high.Int64()})
	}
	return list
}

// The calls of a row group are close in time, so that engines can skip other row groups.
func TestRowGroups(t *testing.T) {
	f := written(t, 2, 0)
	groups := groupsOf(t, f.list["calls/trace=t/part-0.parquet"].Bytes())
	const length = span / 3 // ns
	rows, late := int64(0), 0
	for _, g := range groups {
		rows += g.rows
		if g.rows > groupRows {
			t.Errorf("%d rows", g.rows)
		}
		if g.rows == groupRows && g.last-g.first > length/buckets {
			t.Errorf("full row group of %d ns", g.last-g.first)
		}
		if g.last >= length*9/10 {
			late++
		}
	}
	if rows != 380_000 || late != 1 {
		t.Errorf("%d rows; %d row groups have the end of the trace: %v", rows, late, groups)
	}
}

// A long table continues in more files.
func TestParts(t *testing.T) {
	f := written(t, 2, 200_000)
	rows, parts := int64(0), 0
	for path, file := range f.list {
		if strings.HasPrefix(path, "calls/") {
			parts++
			for _, g := range groupsOf(t, file.Bytes()) {
				rows += g.rows
			}
		}
	}
	if rows != 380_000 || parts < 3 || f.list["calls/trace=t/part-2.parquet"] == nil {
		t.Errorf("%d rows in %d parts", rows, parts)
	}
}

// A full disk gives an error at any moment, and all files are closed.
func TestFullDisk(t *testing.T) {
	whole := 0
	for _, file := range written(t, 2, 0).list {
		whole += file.Len()
	}
	for _, left := range []int{0, 3, whole / 3, whole - 20_000, whole - 1} {
		f := &files{left: left}
		w := New(options(f, 2))
		_, err := feed(w)
		if err != nil {
			w.Abort()
		} else {
			err = w.Close(&tables.Trace{Stats: &calls.Stats{}})
		}
		if !errors.Is(err, errFull) {
			t.Errorf("with %d bytes: %v", left, err)
		}
		for path, file := range f.list {
			if file.closed != 1 {
				t.Errorf("with %d bytes: %s was closed %d times", left, path, file.closed)
			}
		}
	}
}

// A writer can be aborted, and it returns an error if it cannot create a file.
func TestAbort(t *testing.T) {
	f := &files{left: -1}
	w := New(options(f, 2))
	if _, err := feed(w); err != nil {
		t.Fatal(err)
	}
	w.Abort()
	for path, file := range f.list {
		if file.closed != 1 {
			t.Errorf("%s was closed %d times", path, file.closed)
		}
	}
	opts := options(f, 1)
	opts.Create = func(string) (io.WriteCloser, error) { return nil, errFull }
	w = New(opts)
	if err := w.Close(&tables.Trace{Stats: &calls.Stats{}}); !errors.Is(err, errFull) {
		t.Error(err)
	}
}

func TestPartitionName(t *testing.T) {
	for name, want := range map[string]string{
		"trace.xray":              "trace.xray",
		"a b/ü=%2F":               "a_b____2F",
		"..":                      "..",
		strings.Repeat("x", 1000): strings.Repeat("x", 200),
	} {
		if got := PartitionName(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// Arguments and results are JSON in columns of their own. Row groups with long ones are smaller.
func TestValues(t *testing.T) {
	t.Parallel()
	f := &files{left: -1}
	opts := options(f, 1)
	opts.Values = calls.ExpressionsOf(&reader.Recording{Values: []reader.RecordedValues{{
		ID:    1,
		Entry: []value.Description{{Expression: "key", Kind: value.Bytes, Format: value.String}},
		Exit:  []value.Description{{Expression: "result", Kind: value.Scalar, Format: value.Int, Size: 4}},
	}}})
	w := New(opts)
	const rows, long = 3000, 4096
	b := &calls.Batch{Paths: calls.NewPaths()}
	for i := range rows {
		key := []byte(strings.Repeat("x", long-1) + string(rune('a'+i%7)))
		b.Calls = append(b.Calls, calls.Call{Start: 1000 + uint64(i), Duration: 1, Self: 1, Func: reader.FuncID(1 + i%2), Path: b.Paths.Child(0, 1)})
		if i%2 == 0 {
			b.Values = append(b.Values, calls.Value{Call: i, Value: reader.Value{Recorded: value.Recorded{Data: key, Length: long}}})
			b.Results = append(b.Results, calls.Arg{Call: i, Value: uint64(i)})
		}
	}
	if err := w.Calls(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(&tables.Trace{Stats: &calls.Stats{}}); err != nil {
		t.Fatal(err)
	}
	data := f.list["calls/trace=t/part-0.parquet"].Bytes()
	type row struct {
		Start   int64   `parquet:"start"`
		Args    *string `parquet:"args,optional"`
		Results *string `parquet:"results,optional"`
	}
	list, err := pq.Read[row](bytes.NewReader(data), int64(len(data)))
	if err != nil || len(list) != rows {
		t.Fatalf("%d rows, %v", len(list), err)
	}
	for i, r := range list {
		if (r.Args != nil) != (i%2 == 0) || (r.Results != nil) != (i%2 == 0) {
			t.Fatalf("row %d: %v, %v", i, r.Args, r.Results)
		}
		if r.Args == nil {
			continue
		}
		args, results := `{"key":"`+strings.Repeat("x", long-1)+string(rune('a'+i%7))+`"}`, fmt.Sprintf(`{"result":%d}`, i)
		if *r.Args != args || *r.Results != results {
			t.Fatalf("row %d: %s, %s", i, *r.Args, *r.Results)
		}
	}
	if groups := groupsOf(t, data); len(groups) < 2 {
		t.Errorf("%d row groups have %d bytes of values", len(groups), rows/2*long)
	}
}

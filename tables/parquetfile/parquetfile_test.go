package parquetfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

var everyKind = []Column{
	{Name: "i32", Kind: Int32},
	{Name: "i64", Kind: Int64},
	{Name: "delta", Kind: Int64},
	{Name: "u64", Kind: Uint64, Optional: true},
	{Name: "same", Kind: Int64, Optional: true},
	{Name: "text", Kind: String, Optional: true},
	{Name: "data", Kind: Bytes},
	{Name: "numbers", Kind: Uint64, List: true},
	{Name: "words", Kind: String, List: true},
	{Name: "nothing", Kind: Int64, Optional: true},
	{Name: "none", Kind: String, List: true},
}

// table is the written content: for each column and row a value as Go prints it, "<null>", or a
// list of such values.
type table [][]string

func (t table) add(column int, v any) { t[column] = append(t[column], fmt.Sprint(v)) }

const null = "<null>"

// write encodes random rows with dictionaries of about this size, and adds them to the table.
func write(rng *rand.Rand, e *Encoder, g *Group, rows, size int, want table) {
	e.Begin(g, rows)
	// keys of this many values, all of which occur
	keys := make([]uint32, rows)
	for i := range keys {
		keys[i] = uint32(rng.IntN(size))
		if i < size {
			keys[i] = uint32(i)
		}
	}
	size = min(size, rows)
	number := func(i uint32) int64 { return int64(i)*(math.MaxInt64/int64(size)) - math.MaxInt64/2 }

	values32 := make([]int32, size)
	values64 := make([]int64, size)
	for i := range values64 {
		values32[i], values64[i] = int32(i)-7, number(uint32(i))
	}
	e.Int32Of(Keyed{Keys: keys, Gaps: true}, values32) // which a required column cannot have
	e.Int64Of(Keyed{Keys: keys}, values64)
	delta := make([]int64, rows)
	for i, k := range keys {
		want.add(0, values32[k])
		want.add(1, values64[k])
		delta[i] = rng.Int64() >> rng.IntN(63)
		want.add(2, delta[i])
	}
	e.Int64s(delta)

	// some rows are null, by their keys
	gaps := slices.Clone(keys)
	values := map[uint32]uint32{}
	var unsigned []uint64
	for i, k := range gaps {
		if k%3 == 1 || i == rows/2 {
			gaps[i] = Absent
			want.add(3, null)
			continue
		}
		at, known := values[k]
		if !known {
			at = uint32(len(values))
			values[k] = at
			unsigned = append(unsigned, uint64(k)<<50)
		}
		gaps[i] = at
		want.add(3, unsigned[at])
	}
	e.Uint64Of(Keyed{Keys: gaps, Gaps: true}, unsigned)
	e.Int64Of(Keyed{}, []int64{1}) // the same for all rows
	// some are null by the values of keys, and values occur twice
	via := make([]uint32, size)
	for i := range via {
		if via[i] = uint32(i % 2); i%5 == 4 {
			via[i] = Absent
		}
	}
	texts := []string{"zähler", "b"}
	e.StringOf(Keyed{Keys: keys, Via: via}, texts[:min(size, 2)])
	e.StringOf(Keyed{Keys: keys}, slices.Repeat([]string{"\xff\x00"}, size))
	for _, k := range keys {
		want.add(4, 1)
		if via[k] == Absent {
			want.add(5, null)
		} else {
			want.add(5, texts[via[k]])
		}
		want.add(6, "\xff\x00")
	}
	counts := make([]uint32, rows)
	var numbers []uint64
	var words []string
	for i := range counts {
		counts[i] = uint32(max(rng.IntN(6)-3, 0))
		var list, text []string
		for range counts[i] {
			numbers = append(numbers, rng.Uint64())
			words = append(words, fmt.Sprint(i))
			list, text = append(list, fmt.Sprint(numbers[len(numbers)-1])), append(text, words[len(words)-1])
		}
		if list == nil {
			want.add(7, null)
			want.add(8, null)
		} else {
			want.add(7, list)
			want.add(8, text)
		}
		want.add(9, null)
		want.add(10, null)
	}
	e.Uint64Lists(counts, numbers)
	e.StringLists(counts, words)
	e.Null()
	e.Null()
}

// read reads a file with another implementation, and checks minima and maxima.
func read(t *testing.T, file []byte) table {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	got := make(table, len(everyKind))
	for _, group := range f.RowGroups() {
		for i, chunk := range group.ColumnChunks() {
			checkBounds(t, chunk, readColumn(t, got, i, chunk))
		}
	}
	return got
}

// readColumn appends the values of a column to a table, and returns those that are not null.
func readColumn(t *testing.T, got table, column int, chunk parquet.ColumnChunk) (values []parquet.Value) {
	t.Helper()
	pages := chunk.Pages()
	defer pages.Close()
	var list []string
	rows := 0
	end := func() {
		switch {
		case rows == 0:
		case list != nil:
			got.add(column, list)
		case everyKind[column].List:
			got.add(column, null)
		}
		list = nil
	}
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			end()
			return values
		}
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]parquet.Value, page.NumValues())
		if n, err := page.Values().ReadValues(buf); n != len(buf) {
			t.Fatal(n, err)
		}
		for _, v := range buf {
			text := null
			if !v.IsNull() {
				text = show(everyKind[column].Kind, v)
				values = append(values, v.Clone())
			}
			if !everyKind[column].List {
				got.add(column, text)
				continue
			}
			if v.RepetitionLevel() == 0 {
				end()
				rows++
			}
			if !v.IsNull() {
				list = append(list, text)
			}
		}
	}
}

func show(kind Kind, v parquet.Value) string {
	switch kind {
	case Int32:
		return fmt.Sprint(v.Int32())
	case Uint64:
		return fmt.Sprint(v.Uint64())
	case Int64:
		return fmt.Sprint(v.Int64())
	}
	return string(v.ByteArray())
}

// checkBounds compares a column's stated minimum and maximum with its values.
func checkBounds(t *testing.T, chunk parquet.ColumnChunk, values []parquet.Value) {
	t.Helper()
	low, high, ok := chunk.(*parquet.FileColumnChunk).Bounds()
	if !ok {
		if chunk.Type().Kind() != parquet.ByteArray && chunk.Column() != 7 && len(values) > 0 {
			t.Errorf("column %d has no bounds", chunk.Column())
		}
		return
	}
	compare := func(a, b parquet.Value) int { return chunk.Type().Compare(a, b) }
	if compare(low, slices.MinFunc(values, compare)) != 0 || compare(high, slices.MaxFunc(values, compare)) != 0 {
		t.Errorf("column %d: wrong bounds %v to %v", chunk.Column(), low, high)
	}
}

// Another implementation can read the output, with dictionaries of all widths.
func TestRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	want := make(table, len(everyKind))
	var buf bytes.Buffer
	f, err := NewFile(&buf, "all", "test", everyKind, [][2]string{{"key", "value"}})
	if err != nil {
		t.Fatal(err)
	}
	e := NewEncoder(everyKind)
	var g Group
	rows := int64(0)
	for _, n := range []struct{ rows, size int }{{1, 1}, {7, 3}, {1000, 256}, {1001, 257}, {70000, 66000}, {3, 1}, {0, 1}} {
		write(rng, e, &g, n.rows, n.size, want)
		if err := f.Append(&g); err != nil {
			t.Fatal(err)
		}
		rows += int64(n.rows)
	}
	if f.Rows() != rows {
		t.Errorf("got %d rows, want %d", f.Rows(), rows)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	got := read(t, buf.Bytes())
	for i := range want {
		if diff := gocmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("column %s (-want +got):\n%.2000s", everyKind[i].Name, diff)
		}
	}
	meta, err := Metadata(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil || meta["key"] != "value" {
		t.Errorf("got metadata %v, error %v", meta, err)
	}
}

// A column whose keys are those of the column before has the same bytes as without that hint, also
// where its dictionary is another one, or the column before had too small a page to be kept.
func TestAgain(t *testing.T) {
	columns := []Column{{Name: "a", Kind: Int32, Optional: true}, {Name: "b", Kind: String, Optional: true}, {Name: "c", Kind: Int32}}
	for _, rows := range []int{10, 5000} {
		keys, via := make([]uint32, rows), []uint32{1, Absent, 0, 2}
		for i := range keys {
			keys[i] = uint32(i * i % len(via))
		}
		for _, texts := range [][]string{{"x", "y", "z"}, {"x", "x", "z"}} {
			var with, without Group
			for g, again := range map[*Group]bool{&with: true, &without: false} {
				e := NewEncoder(columns)
				for range 2 { // also after another group
					e.Begin(g, rows)
					e.Int32Of(Keyed{Keys: keys, Via: via}, []int32{5, 6, 7})
					e.StringOf(Keyed{Keys: keys, Via: via, Again: again}, texts)
					e.Int32Of(Keyed{Keys: keys}, []int32{1, 2, 3, 4})
				}
			}
			if diff := gocmp.Diff(without.chunks, with.chunks); diff != "" || !bytes.Equal(without.data, with.data) {
				t.Errorf("%d rows, %q: other bytes, or (-without +with):\n%s", rows, texts, diff)
			}
		}
	}
}

// Values that hardly repeat, some of which are frequent, take about as many bits as their entropy.
func TestEntropy(t *testing.T) {
	const rows = 1 << 17
	rng := rand.New(rand.NewPCG(1, 2))
	keys, values := make([]uint32, rows), make([]int64, 256)
	for i := range values {
		values[i] = int64(i)
		keys[i] = uint32(i)
	}
	for i := len(values); i < rows; i++ {
		keys[i] = uint32(min(rng.ExpFloat64()*8, 255)) // an entropy of 4.4 bits
	}
	var g Group
	e := NewEncoder([]Column{{Name: "self", Kind: Int64}})
	e.Begin(&g, rows)
	e.Int64Of(Keyed{Keys: keys}, values)
	if n := len(g.data); n > rows*5/8 {
		t.Errorf("%d rows take %d bytes", rows, n)
	}
}

// Values are numbered by first occurrence. If there are too many, none has a number.
func TestIndexer(t *testing.T) {
	var x Indexer
	for _, distinct := range []int{1, 200, mostKeys} {
		values := make([]uint64, 5*distinct)
		for i := range values {
			values[i] = uint64(i%distinct) << 40
		}
		keys, found, ok := x.Keys(values)
		if !ok || len(found) != distinct {
			t.Fatalf("got %d values, want %d; %v", len(found), distinct, ok)
		}
		for i, k := range keys {
			if found[k] != values[i] {
				t.Fatalf("value %d: got %d, want %d", i, found[k], values[i])
			}
		}
	}
	many := make([]uint64, 4*mostKeys)
	for i := range many {
		many[i] = uint64(i)
	}
	if _, _, ok := x.Keys(many); ok {
		t.Error("got keys for too many values")
	}
}

type failingWriter struct{ after int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.after -= len(p); w.after < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

// Errors of the writer are returned.
func TestWriteError(t *testing.T) {
	columns := []Column{{Name: "a", Kind: Int64}}
	for after, want := range []int{0, 1, 2} {
		w := &failingWriter{[]int{0, 10, 100}[after]}
		f, err := NewFile(w, "t", "test", columns, nil)
		steps := 0
		if err == nil {
			steps++
			e := NewEncoder(columns)
			var g Group
			e.Begin(&g, 3)
			e.Int64s([]int64{1, 2, 3})
			err = f.Append(&g)
		}
		if err == nil {
			steps++
			err = f.Close()
		}
		if !errors.Is(err, io.ErrShortWrite) || steps != want {
			t.Errorf("got error %v after %d steps, want %d", err, steps, want)
		}
	}
}

// The metadata of any file are read or refused.
func FuzzMetadata(f *testing.F) {
	var buf bytes.Buffer
	columns := []Column{{Name: "a", Kind: Int64}}
	file, err := NewFile(&buf, "t", "test", columns, [][2]string{{"k", "v"}})
	if err := cmp.Or(err, file.Close()); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Add([]byte("PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := Metadata(bytes.NewReader(data), int64(len(data))); err == nil && !bytes.HasSuffix(data, []byte(magic)) {
			t.Error("a file without an end was accepted")
		}
	})
}

// A small file may say that its pages become very large. Each has a limit, and those that are in
// memory together have one.
func TestLargePages(t *testing.T) {
	columns := make([]Column, 5)
	for i := range columns {
		columns[i] = Column{Name: string(rune('a' + i)), Kind: String}
	}
	for _, test := range []struct {
		megabytes []int // by column
		want      string
	}{
		{[]int{30, 0, 0, 0, 0}, ""},
		{[]int{0, 65, 0, 0, 0}, "a page of "},
		{[]int{60, 60, 60, 60, 60}, "the pages of all columns take "},
	} {
		var buf bytes.Buffer
		f, err := NewFile(&buf, "t", "test", columns, nil)
		if err != nil {
			t.Fatal(err)
		}
		var g Group
		e := NewEncoder(columns)
		e.Begin(&g, 1)
		for _, n := range test.megabytes {
			e.StringOf(Keyed{Keys: []uint32{0}}, []string{strings.Repeat("a", n<<20)})
		}
		if err := cmp.Or(f.Append(&g), f.Close()); err != nil || buf.Len() > 1<<20 {
			t.Fatalf("%d bytes, error %v", buf.Len(), err)
		}
		r, err := OpenReader(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
		if err != nil {
			t.Fatal(err)
		}
		var said string
		pages := make([]Pages, len(columns))
		for i := range pages {
			pages[i].Open(r, 0, i)
			if _, err := pages[i].Next(); err != nil {
				said = err.Error()
				break
			}
		}
		if !strings.HasPrefix(said, test.want) || (said == "") != (test.want == "") {
			t.Errorf("columns of %d MB: got error %q, want %q", test.megabytes, said, test.want)
		}
	}
}

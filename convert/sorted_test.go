package convert

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

func openSorted(t *testing.T, data []byte) *reader.Trace {
	t.Helper()
	trace, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	return trace
}

// tiedTrace is an FDR log of threads with many records at equal times.
func tiedTrace(t *testing.T, threads int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var text strings.Builder
	text.WriteString("xray fdr frequency=1000\n")
	for thread := range threads {
		fmt.Fprintf(&text, "thread %d pid=%d tsc=%d\n", threads-thread, 1+thread%2, 100+r.IntN(5))
		for i := range 3000 {
			switch i % 50 {
			case 10:
				fmt.Fprintf(&text, "tsc-wrap %d\n", 100+i/2) // mostly a backward step
			case 20:
				fmt.Fprintf(&text, "enter-arg 7 +%d\narg %d\n", r.IntN(3), i)
			case 30:
				fmt.Fprintf(&text, "custom %q +%d\n", fmt.Sprint(thread, i), r.IntN(3))
			case 40:
				fmt.Fprintf(&text, "typed %d %q +0\n", i, "x")
			default:
				fmt.Fprintf(&text, "%s %d +%d\n", []string{"enter", "exit", "tail-exit"}[r.IntN(3)], 1+r.IntN(9), r.IntN(3))
			}
		}
	}
	data, err := tracetext.Parse(text.String())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// Output in order of time does not depend on the number of goroutines, equals what blocks in this
// order give, and does not change when sorted again.
func TestSorted(t *testing.T) {
	formats := map[string]func(io.Writer, reader.Header) sortedWriter{
		"yaml":  func(w io.Writer, h reader.Header) sortedWriter { return NewYAML(w, Options{Header: h}) },
		"basic": func(w io.Writer, h reader.Header) sortedWriter { return tracewrite.NewBasic(w, h) },
		"raw":   func(w io.Writer, h reader.Header) sortedWriter { return tracewrite.NewRaw(w, h) },
	}
	for name, open := range formats {
		for _, threads := range []int{0, 1, 5} {
			data := tiedTrace(t, threads)
			var want bytes.Buffer
			trace := openSorted(t, data)
			w := open(&want, trace.Header(0))
			for b, err := range trace.Blocks(reader.TimeOrder) {
				if err == nil {
					err = w.Block(b)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			for _, n := range []int{1, 2, 3} {
				for pass, data := range [][]byte{data, want.Bytes()} {
					var got bytes.Buffer
					trace := openSorted(t, data)
					w := open(&got, trace.Header(0))
					if err := errors.Join(w.Sorted(trace, n, nil), w.Close()); err != nil {
						t.Fatal(err)
					}
					if diff := cmp.Diff(strings.Split(want.String(), "\n"), strings.Split(got.String(), "\n")); diff != "" {
						t.Errorf("%s, %d threads, %d goroutines, pass %d (-blocks in time order +sorted):\n%.2000s",
							name, threads, n, pass+1, diff)
					}
				}
			}
		}
	}
}

// Errors of the writer are returned.
func TestSortedError(t *testing.T) {
	trace := openSorted(t, tiedTrace(t, 5))
	for _, n := range []int{1, 2} {
		for name, w := range map[string]sortedWriter{
			"yaml": NewYAML(&full{}, Options{}), "basic": tracewrite.NewBasic(&full{}, reader.Header{}),
		} {
			if err := w.Sorted(trace, n, nil); !errors.Is(err, errFull) {
				t.Errorf("%s: Sorted returned %v", name, err)
			}
			if err := w.Close(); !errors.Is(err, errFull) {
				t.Errorf("%s: Close returned %v", name, err)
			}
		}
	}
}

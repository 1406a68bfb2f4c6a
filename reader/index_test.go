package reader_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/tracegen"
	"github.com/xray-tools/xray/reader"
)

// TestIndexOnSeveralProcessors damages a trace in many ways. Several goroutines must find the same
// in its parts as one goroutine that starts at the beginning.
func TestIndexOnSeveralProcessors(t *testing.T) {
	var whole bytes.Buffer
	if _, err := tracegen.Generate(&whole, tracegen.Options{Format: tracegen.FDR, Seed: 1, Records: 10_000, Threads: 5, Functions: 100}); err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	path := filepath.Join(t.TempDir(), "trace")
	damaged := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 0))
		b := bytes.Clone(whole.Bytes())
		for range seed % 8 {
			at := 32 + r.IntN(len(b)-200)
			switch r.IntN(4) {
			case 0:
				b[at] ^= byte(1 << r.IntN(8))
			case 1:
				clear(b[at : at+100])
			case 2:
				b = append(b[:at], b[at+r.IntN(100):]...)
			case 3:
				copy(b[at:], b[32:132]) // what looks like the beginning of a block
			}
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		runtime.GOMAXPROCS(1)
		want := contents(t, path)
		if len(want.Losses) > 0 {
			damaged++
		}
		for _, n := range []int{2, 7} {
			runtime.GOMAXPROCS(n)
			if got := contents(t, path); !reflect.DeepEqual(want, got) {
				t.Fatalf("seed %d, %d processors (-one +several):\n%s", seed, n, cmp.Diff(want, got))
			}
		}
	}
	if damaged < 100 {
		t.Errorf("only %d of 300 traces have losses", damaged)
	}
}

// traceContents is everything in a trace.
type traceContents struct {
	Blocks []int64 // offsets
	Events []reader.Event
	Losses []reader.Loss
}

func contents(t *testing.T, path string) (c traceContents) {
	t.Helper()
	tr, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	for b, err := range tr.Blocks(reader.FileOrder) {
		if err != nil {
			t.Fatal(err)
		}
		c.Blocks = append(c.Blocks, b.Offset)
		c.Events = append(c.Events, b.Events...)
	}
	c.Losses = tr.Losses().Samples()
	if err := tr.Close(); err != nil {
		t.Fatal(err)
	}
	return c
}

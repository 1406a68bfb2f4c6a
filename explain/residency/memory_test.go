package residency_test

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/xray-tools/xray/explain/residency"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// shortThreads returns a basic log of threads that make one call each, one after another.
func shortThreads(t *testing.T, threads, ticks int) *reader.Trace {
	t.Helper()
	le := binary.LittleEndian
	log := make([]byte, 32, 32+threads*64)
	le.PutUint16(log, 3)
	le.PutUint64(log[8:], 1e9)
	for i := range threads {
		for kind := range 2 {
			record := make([]byte, 32)
			record[3] = byte(kind)
			le.PutUint32(record[4:], 1)
			le.PutUint64(record[8:], uint64((1+2*i+kind)*ticks))
			le.PutUint32(record[16:], uint32(1+i))
			le.PutUint32(record[20:], uint32(1+i))
			log = append(log, record...)
		}
	}
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, log, 0o600); err != nil {
		t.Fatal(err)
	}
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { trace.Close() })
	return trace
}

// A thread that lives briefly in a long trace takes memory only for its life.
func TestMemoryOfShortThreads(t *testing.T) {
	const threads, cells, ticks = 20_000, 600, 100
	trace := shortThreads(t, threads, ticks)
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	a, stats, err := calls.Run(calls.Source(trace), calls.Options{Paths: true},
		func() *residency.Analysis {
			return residency.New(residency.Options{To: 2 * threads * ticks, Cells: cells, Top: 5})
		})
	if err != nil || stats.Calls != threads {
		t.Fatal(stats.Calls, err)
	}
	if took := (used() - before) / threads; took > 750 {
		t.Errorf("got %d bytes for each thread", took)
	}
	if n := len(a.Report(reader.Clock{Frequency: 1e9}).Threads); n != threads {
		t.Errorf("got %d threads", n)
	}
}

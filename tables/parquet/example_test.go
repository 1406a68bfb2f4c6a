package parquet_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"slices"

	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
	"github.com/xray-tools/xray/tables/parquet"
)

// The tables of a trace are files, which a program creates where it wants.
func Example() {
	trace, names, clock, close := recorded.Open()
	defer close()
	span, err := trace.Extent()
	if err != nil {
		log.Fatal(err)
	}
	var files []string
	w := parquet.New(parquet.Options{
		Trace: "journal", Last: span.Last,
		Source: tables.Source{Names: names, Clock: clock, Base: span.First},
		Create: func(path string) (io.WriteCloser, error) {
			files = append(files, path)
			return memory{new(bytes.Buffer)}, nil
		},
	})
	_, stats, err := calls.Run(calls.Source(trace), calls.Options{Shards: 1, Paths: true}, func() single { return single{w} })
	if err != nil {
		w.Abort()
		log.Fatal(err)
	}
	if err := w.Close(&tables.Trace{Name: "journal", Stats: stats, Threads: trace.Threads()}); err != nil {
		log.Fatal(err)
	}
	slices.Sort(files)
	for _, path := range files {
		fmt.Println(path)
	}
	// Output:
	// calls/trace=journal/part-0.parquet
	// events/trace=journal/part-0.parquet
	// functions/trace=journal/part-0.parquet
	// paths/trace=journal/part-0.parquet
	// threads/trace=journal/part-0.parquet
	// traces/trace=journal/part-0.parquet
}

// memory is a file in memory.
type memory struct{ *bytes.Buffer }

func (memory) Close() error { return nil }

// single is an analysis of one shard, which is never merged.
type single struct{ calls.Sink }

func (single) Merge(single) {}

package sql_test

import (
	"context"
	"fmt"
	"log"

	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
	"github.com/xray-tools/xray/tables/sql"
)

// A query over the calls of a trace. It reads the trace again for each pass.
func Example() {
	trace, names, clock, close := recorded.Open()
	defer close()
	db, err := sql.Open(sql.Options{
		Source: tables.Source{Names: names, Clock: clock, Files: trace.Files()},
		Pass: func(p sql.PassOptions, sink calls.Sink) error {
			opts := calls.Options{Shards: 1, Paths: p.Paths, Filter: p.Filter}
			_, _, err := calls.Run(calls.Source(trace), opts, func() single { return single{sink} })
			return err
		},
		Start:  func() (uint64, error) { return 0, nil },
		Traces: func() []tables.Trace { return nil },
	})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(context.Background(), "SELECT function, count(*) FROM calls GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 3")
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	for {
		row, err := rows.Next()
		if err != nil {
			log.Fatal(err)
		}
		if row == nil {
			break
		}
		fmt.Println(row...)
	}
	// Output:
	// free 67
	// calloc 65
	// malloc 65
}

// single is an analysis of one shard, which is never merged.
type single struct{ calls.Sink }

func (single) Merge(single) {}

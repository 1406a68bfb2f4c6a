// Package parquet writes the calls of a trace as tables in Parquet files, for engines such as
// DuckDB, Spark and ClickHouse. [tables.All] describes the tables, and docs/parquet.md how to
// use them.
//
// Each table has a folder. Each trace has a folder in it, named as engines expect partitions:
//
//	calls/trace=NAME/part-0.parquet
//
// A [Writer] is a sink of reader/calls that receives the calls of all threads on one goroutine.
// It sorts them into buckets by start time. A full bucket becomes a row group, which another
// goroutine encodes. So the calls of a row group are close in time, and engines can skip row
// groups that a query does not need. Memory grows with threads, functions and call paths, but
// not with the length of the trace. The output does not depend on the number of goroutines.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/tables"
	"github.com/xray-tools/xray/tables/parquetfile"
)

// Options of a Writer.
type Options struct {
	tables.Source
	// Create creates a file. path is relative to the output, with slashes. The Writer closes the
	// file.
	Create func(path string) (io.WriteCloser, error)
	// Trace is the value of the partition. See [PartitionName].
	Trace string
	// Identity distinguishes the trace from others of that name.
	Identity string
	// CreatedBy is the program and its version.
	CreatedBy string
	// Last is the tick of the last record. If OffCPU is set, calls.Options.OffCPU must be, too.
	Last uint64
	// Workers is the number of goroutines that encode. Less than 1 means 1.
	Workers int
}

// PartitionName returns a form of a trace's name that is a valid folder name on all systems and that
// engines do not decode. Anything but a letter, a digit, or one of ".-_+@," becomes "_".
func PartitionName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune(".-_+@,", r):
			return r
		}
		return '_'
	}, name)
	if len(name) > 200 {
		name = name[:200]
	}
	return name
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Keys in the metadata of each file.
const (
	schemaKey = "xray.schema"
	traceKey  = "xray.trace"
)

// TracesFolder is the folder of the table traces in the output.
const TracesFolder = "traces"

// TraceFile returns the path of the file that says that the tables of a trace are complete.
func TraceFile(trace string) string { return TracesFolder + "/trace=" + trace + "/part-0.parquet" }

// Check returns an error if new tables cannot be next to the tables of an existing file of the table
// traces, because those have another version. With samePartition, the new tables replace them, and
// Check also returns an error if the file belongs to another trace. identity is as in Options. r has
// size bytes.
func Check(r io.ReaderAt, size int64, samePartition bool, identity string) error {
	values, err := parquetfile.Metadata(r, size)
	switch version := values[schemaKey]; {
	case err != nil:
		return err
	case version == "":
		return errors.New("xray did not write this file")
	case version != strconv.Itoa(tables.Version):
		return fmt.Errorf("its tables have version %s, but this xray writes version %d", version, tables.Version)
	case samePartition && values[traceKey] != identity:
		return errOtherTrace
	}
	return nil
}

var errOtherTrace = errors.New("it belongs to another trace with the same name")

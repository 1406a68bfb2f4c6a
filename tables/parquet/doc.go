// Package parquet writes the calls of a trace as tables in Parquet files, for engines such as
// DuckDB, Spark and ClickHouse. [Tables] describes the tables, and docs/parquet.md how to use
// them.
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

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/tables/parquetfile"
)

// Options of a Writer.
type Options struct {
	// Create creates a file. path is relative to the output, with slashes. The Writer closes the
	// file.
	Create func(path string) (io.WriteCloser, error)
	// Trace is the value of the partition. See [PartitionName].
	Trace string
	// Identity distinguishes the trace from others of that name.
	Identity string
	// CreatedBy is the program and its version.
	CreatedBy string
	Names     symbolize.Names
	// Clock is the trace's clock, Base the tick that becomes time 0, and Last the tick of the
	// last record.
	Clock      reader.Clock
	Base, Last uint64
	// OffCPU says that the trace has off-CPU times. calls.Options.OffCPU must be set as well.
	OffCPU bool
	// ThreadName and ProcessName return the names of a thread and of its process, or "".
	ThreadName, ProcessName func(reader.Thread) string
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

// function returns the known properties of a function.
func (o *Options) function(id reader.FuncID) function {
	f := function{name: valid(symbolize.Label(o.Names, id))}
	if o.Names != nil {
		if s, ok := o.Names.Func(id); ok && s.File != "" {
			f.file, f.line = valid(s.File), int32(s.Line)
		}
	}
	return f
}

func valid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// time converts a time of the trace's clock to nanoseconds since Base.
func (o *Options) time(tsc uint64) int64 {
	if tsc < o.Base {
		return -saturated(o.Clock.Nanos(o.Base - tsc))
	}
	return saturated(o.Clock.Nanos(tsc - o.Base))
}

// Summary is the caller's part of the row in the table traces.
type Summary struct {
	Name                string
	Started             int64 // nanoseconds since 1970; 0 if unknown
	Stats               *calls.Stats
	Threads             int // number of threads in the trace
	Losses, LostRecords int64
	Process             *reader.Process // nil if unknown
	OffProcessor        string          // why off-CPU times are unknown; "" if they are known
	Caveats             []string
}

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
	case version != strconv.Itoa(Version):
		return fmt.Errorf("its tables have version %s, but this xray writes version %d", version, Version)
	case samePartition && values[traceKey] != identity:
		return errOtherTrace
	}
	return nil
}

var errOtherTrace = errors.New("it belongs to another trace with the same name")

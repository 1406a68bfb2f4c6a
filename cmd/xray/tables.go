package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/tables"
	"github.com/xray-tools/xray/tables/parquet"
)

// mostEncoders limits the goroutines that encode tables. Each takes some 30 MB, and one that
// rebuilds calls feeds about six of them.
const mostEncoders = 8

// parquetTables writes a trace as tables in a directory.
func parquetTables(c *conversion, s *session.Session, opts convert.Options) (*session.Run, error) {
	span, err := s.Span()
	if err != nil {
		return nil, err
	}
	file := s.Trace.Files()[0]
	how := parquet.Options{
		Trace:     parquet.PartitionName(cmp.Or(c.traceName, filepath.Base(file))),
		Identity:  fmt.Sprintf("%d to %d, %d threads", span.First, span.Last, span.Threads),
		CreatedBy: "xray version " + version(),
		Source: tables.Source{
			Names: s.Names, Clock: s.Clock, Base: opts.Base, OffCPU: opts.OffCPU != nil,
			ThreadName: opts.ThreadName, ProcessName: opts.ProcessName, Values: opts.Values,
		},
		Last: span.Last, Workers: min(runtime.GOMAXPROCS(0), mostEncoders),
	}
	if err := c.beside(&how); err != nil {
		return nil, err
	}
	var run *session.Run
	err = fileio.WriteTree(c.output, func(t *fileio.Tree) (err error) {
		how.Create = func(path string) (io.WriteCloser, error) { return t.Create(path) }
		run, err = c.fillTables(s, opts, how)
		return err
	})
	return run, err
}

// beside returns an error if the tables of the trace cannot be added to those in the directory.
// It checks the version in one trace, because all have the same.
func (c *conversion) beside(opts *parquet.Options) error {
	own := parquet.TraceFile(opts.Trace)
	found := []string{own}
	if others, err := os.ReadDir(filepath.Join(c.output, parquet.TracesFolder)); err == nil && len(others) > 0 {
		found = append(found, parquet.TracesFolder+"/"+others[0].Name()+"/"+filepath.Base(own))
	}
	for _, name := range found {
		path := filepath.Join(c.output, filepath.FromSlash(name))
		err := checkTraceFile(path, name == own, opts.Identity)
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return fmt.Errorf("cannot add %s to %s: %s: %w: use another directory, or another name with --trace-name",
				opts.Trace, c.output, path, err)
		}
	}
	return nil
}

func checkTraceFile(path string, same bool, identity string) error {
	file, size, err := fileio.OpenRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return parquet.Check(file, size, same, identity)
}

// fillTables writes the files of the tables.
func (c *conversion) fillTables(s *session.Session, opts convert.Options, how parquet.Options) (*session.Run, error) {
	var w *parquet.Writer
	_, run, err := session.Analyze(s, c.scope, calls.Options{Shards: 1, Paths: true, OffCPU: opts.OffCPU}, func() session.Streamed {
		if w != nil { // there were too many call paths, and the calls come again with fewer
			w.Abort()
		}
		w = parquet.New(how)
		return session.Streamed{Sink: w}
	})
	if err != nil {
		w.Abort()
		return nil, err
	}
	c.caveats = s.Caveats(run)
	return run, w.Close(c.summary(s, opts, run))
}

// summary returns what the tables state about the trace.
func (c *conversion) summary(s *session.Session, opts convert.Options, run *session.Run) *tables.Trace {
	losses := s.Trace.Losses()
	list := &tables.Trace{
		Name: s.Trace.Files()[0], Stats: run.Stats, Threads: s.Trace.Threads(),
		Losses: losses.Count(), LostRecords: losses.Records(), Caveats: c.caveats,
	}
	if opts.OffCPU == nil {
		list.OffProcessor = s.NoOffCPU()
	}
	if r := s.Trace.Recording(0); r != nil {
		list.Process = &r.Process
	}
	if opts.Epoch <= math.MaxInt64 {
		list.Started = int64(opts.Epoch)
	}
	return list
}

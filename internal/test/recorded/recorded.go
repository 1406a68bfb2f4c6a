// Package recorded opens a trace for the examples of other packages.
package recorded

import (
	"log"
	"path/filepath"
	"runtime"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Open opens testdata/journal-recorded.xray, which xray record wrote, with the names that are packed into it
// and its clock. The caller calls close. Errors end the process.
func Open() (trace *reader.Trace, names symbolize.Names, clock reader.Clock, close func()) {
	return Named("journal-recorded.xray", "")
}

// Named is Open for another trace in testdata. binary is the program or its map, also in testdata, or "" for names
// in the trace.
func Named(file, binary string) (trace *reader.Trace, names symbolize.Names, clock reader.Clock, close func()) {
	_, here, _, _ := runtime.Caller(0)
	testdata := filepath.Join(filepath.Dir(here), "../../../testdata")
	trace, err := reader.Open(reader.Options{}, filepath.Join(testdata, file))
	if err != nil {
		log.Fatal(err)
	}
	var maps map[int]string
	if binary != "" {
		maps = map[int]string{0: filepath.Join(testdata, binary)}
	}
	opened, err := symbolize.Open(trace, maps, symbolize.Search{})
	if err != nil {
		log.Fatal(err)
	}
	if clock, err = trace.Clock(); err != nil {
		log.Fatal(err)
	}
	return trace, opened.Names, clock, func() { opened.Close(); trace.Close() }
}

package observe

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/args"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/symbolize"
)

// Filter selects functions by their names, with [symbolize.Matches].
type Filter struct {
	Func    *regexp.Regexp // only functions that match; nil means all
	Exclude *regexp.Regexp // except those that match; nil means none
	// Except has functions that are excluded besides, by the path of their object and number in it.
	Except map[string]map[reader.FuncID]bool
	// Args and Results ask for values of functions that are recorded: [args.Parse].
	Args, Results []*args.Spec
	// When selects calls of functions that are recorded: [args.ParseCondition]. If it is not empty, only such calls are
	// recorded, and what is inside. This requires a limit of the depth.
	When []*args.Condition
	// Chosen are objects whose functions all pass Func: those of [build.Library.PreloadCalls].
	Chosen []string
	// Names says where to find names that the objects lack.
	Names symbolize.Options
}

// All reports whether the filter selects every function, and no values.
func (f *Filter) All() bool {
	return f.Func == nil && f.Exclude == nil && len(f.Except) == 0 && !f.wantsValues()
}

func (f *Filter) keeps(name string, chosen bool) bool {
	return (chosen || f.Func == nil || symbolize.Matches(f.Func, name)) && (f.Exclude == nil || !symbolize.Matches(f.Exclude, name))
}

// Write writes which functions of the objects to record, in the format that the runtime reads. For each
// object with sleds, that is a line "object PATH", followed by lines with function numbers or ranges
// such as "5-9", and by lines of values. Numbers count from 1 within the object. Write returns the number of selected functions,
// without those of Chosen.
//
// In objects that are not listed, all functions are off if the filter has Func, and on if it only has
// Exclude.
func (f *Filter) Write(w io.Writer, objects []string) (kept int, err error) {
	b := bufio.NewWriter(w)
	if f.Func != nil {
		fmt.Fprintln(b, "default off")
	}
	done := make(map[string]bool)
	for _, given := range objects {
		path := RealPath(given)
		if done[path] || !build.HasSleds(path) {
			continue
		}
		if strings.Contains(path, "\n") {
			return kept, fmt.Errorf("%q: a filter cannot name a path of several lines", path)
		}
		done[path] = true
		ids, values, err := f.choose(path, f.Except[given])
		if err != nil {
			return kept, err
		}
		if !slices.Contains(f.Chosen, path) {
			kept += len(ids)
		}
		fmt.Fprintf(b, "object %s\n", path)
		writeRanges(b, ids)
		_, _ = b.Write(values) // Flush returns the error
	}
	return kept, b.Flush()
}

// RealPath returns the path by which the runtime knows a file, with symbolic links resolved.
func RealPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return path
}

// choose returns the functions of an object that the filter selects, in ascending order, and the lines of
// their values.
func (f *Filter) choose(path string, except map[reader.FuncID]bool) ([]reader.FuncID, []byte, error) {
	table, err := symbolize.Load(path, f.Names)
	if err != nil {
		return nil, nil, err
	}
	defer table.Close()
	ids := f.keep(table, slices.Contains(f.Chosen, path), except)
	var values bytes.Buffer
	err = f.writeValues(&values, table, ids)
	return ids, values.Bytes(), err
}

// keep returns the functions of a table that the filter selects, in ascending order. chosen means that
// all of them pass Func, and except those to leave out.
func (f *Filter) keep(table *symbolize.Table, chosen bool, except map[reader.FuncID]bool) (ids []reader.FuncID) {
	for _, fn := range table.Map().Functions {
		if !except[fn.ID] && f.keeps(symbolize.Label(table, fn.ID), chosen) {
			ids = append(ids, fn.ID)
		}
	}
	return ids
}

func writeRanges(w io.Writer, ids []reader.FuncID) {
	for len(ids) > 0 {
		n := 1
		for n < len(ids) && ids[n] == ids[0]+reader.FuncID(n) {
			n++
		}
		if n == 1 {
			fmt.Fprintf(w, "%d\n", ids[0])
		} else {
			fmt.Fprintf(w, "%d-%d\n", ids[0], ids[n-1])
		}
		ids = ids[n:]
	}
}

// Package pack collects what makes a trace self-contained: the names, source locations and source
// code of the functions that occur in it.
package pack

import (
	"math"
	"slices"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/symbolize/source"
)

// maxFunc is the largest ID in an FDR log.
const maxFunc = 1<<28 - 1

// Occurring returns the IDs of the functions that occur in a trace, in its records or in the
// recorder's counts and sums, in ascending order. It decodes the trace on up to shards goroutines.
func Occurring(t *reader.Trace, shards int) ([]reader.FuncID, error) {
	seen := make([]map[reader.FuncID]struct{}, max(shards, 1))
	for i := range seen {
		seen[i] = make(map[reader.FuncID]struct{})
	}
	err := t.Each(len(seen), func(shard int, b *reader.Block) error {
		ids := seen[shard]
		for i := range b.Events {
			if b.Events[i].Kind <= reader.EnterArg {
				ids[b.Events[i].Func] = struct{}{}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := seen[0]
	for i := range t.Files() {
		r := t.Recording(i)
		if r == nil {
			continue
		}
		for _, c := range r.Counters {
			all[c.Func] = struct{}{}
		}
		for _, f := range r.Pruned.Functions {
			all[f.Func] = struct{}{}
		}
		for _, p := range r.Profiles {
			for _, path := range p.Paths {
				if path.Func != reader.Folded {
					all[path.Func] = struct{}{}
				}
			}
			for _, fold := range p.Folds {
				all[fold.Func] = struct{}{}
			}
		}
	}
	for _, ids := range seen[1:] {
		for id := range ids {
			all[id] = struct{}{}
		}
	}
	list := make([]reader.FuncID, 0, len(all))
	for id := range all {
		list = append(list, id)
	}
	slices.Sort(list)
	return list, nil
}

// maxOthers limits the names of functions at the address of another.
const maxOthers = 100

// Functions looks up functions by ID. names should return mangled names. tails has the functions'
// tail calls, and may be nil. Functions omits unknown functions and IDs that do not fit in an FDR
// log. It also omits the IDs that these become when an FDR log truncates them.
func Functions(names symbolize.Names, tails *symbolize.TailCalls, ids []reader.FuncID) []reader.NamedFunction {
	cut := make(map[reader.FuncID]bool)
	for _, id := range ids {
		if id < 0 || id > maxFunc {
			cut[id&maxFunc] = true
		}
	}
	var list []reader.NamedFunction
	for _, id := range ids {
		s, ok := names.Func(id)
		if !ok || id < 1 || id > maxFunc || cut[id] {
			continue
		}
		f := reader.NamedFunction{ID: id, Name: s.Name, File: s.File, Address: reader.Address(s.Address)}
		f.Others = symbolize.Others(names, id)
		f.Others = f.Others[:min(len(f.Others), maxOthers)]
		if s.Line <= math.MaxInt32 && s.Column <= math.MaxInt32 {
			f.Line, f.Column = int32(s.Line), int32(s.Column)
		}
		f.Continues = slices.DeleteFunc(slices.Clone(tails.Targets(id)), func(to reader.FuncID) bool {
			return to < 1 || to > maxFunc || cut[to]
		})
		f.Continues = f.Continues[:min(len(f.Continues), reader.MaxContinues)]
		if t := symbolize.TableOf(names, id); t != nil {
			f.Object, f.BuildID = t.Object().Path, t.Object().BuildID
		}
		list = append(list, f)
	}
	return list
}

// Sources has the source code of functions.
type Sources struct {
	// Texts are passages, ordered by file and line. They do not overlap.
	Texts []reader.SourceText
	// Unread are the files that could not be read. Large are the files with too many lines, and
	// those that would exceed the total size limit. Both are ordered by path.
	Unread, Large []string
}

// NewSources extracts the passages of the functions from their files. read returns the text of a
// file, and its MD5 in hex if the compiled file has the same one.
func NewSources(functions []reader.NamedFunction, read func(path string) (text []byte, md5 string, err error)) *Sources {
	byFile := make(map[string][]reader.NamedFunction)
	var files []string
	for _, f := range functions {
		if f.File == "" || f.Line <= 0 {
			continue
		}
		if byFile[f.File] == nil {
			files = append(files, f.File)
		}
		byFile[f.File] = append(byFile[f.File], f)
	}
	slices.Sort(files)
	s := &Sources{}
	left := source.MaxBytes
	for _, file := range files {
		text, sum, err := read(file)
		if err != nil {
			s.Unread = append(s.Unread, file)
			continue
		}
		lines := source.Lines(text)
		if len(lines) > reader.MaxSourceLines {
			s.Large = append(s.Large, file)
			continue
		}
		texts := passages(lines, byFile[file])
		size := 0
		for i := range texts {
			texts[i].File, texts[i].MD5 = file, sum
			size += len(texts[i].Text)
		}
		if size > left {
			s.Large = append(s.Large, file)
			continue
		}
		left -= size
		s.Texts = append(s.Texts, texts...)
	}
	return s
}

// passages returns the passages for the functions of one file. It joins adjacent ones.
func passages(lines []string, functions []reader.NamedFunction) []reader.SourceText {
	wanted := make([]bool, len(lines)+2)
	for _, f := range functions {
		first, last := source.Passage(lines, int(f.Line))
		for n := first; n <= last; n++ {
			wanted[n] = true
		}
	}
	var texts []reader.SourceText
	for n := 1; n <= len(lines); n++ {
		if !wanted[n] {
			continue
		}
		first := n
		for wanted[n] {
			n++
		}
		texts = append(texts, reader.SourceText{First: int32(first), Text: strings.Join(lines[first-1:n-1], "\n")})
	}
	return texts
}

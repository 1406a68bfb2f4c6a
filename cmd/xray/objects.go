package main

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Traces of LLVM's runtimes do not say which files their ids are of. What follows finds
// out where the files that were given cannot be those.

// warnOfOrder tells of shared objects that were given for numbers that others have by
// the order in which the program's loader runs constructors.
func (s *session) warnOfOrder(tables symbolize.Objects, search symbolize.Search) {
	if len(tables) == 1 || tables[0] == nil {
		return
	}
	linked, _, err := symbolize.LinkedObjects(tables[0].Object().Path, search)
	if err != nil {
		return // a map, or a program whose objects are elsewhere
	}
	for i, path := range linked {
		t := tables[uint8(i+1)]
		if t == nil || t.Map().Class == elf.ELFCLASSNONE || sameFile(t.Object().Path, path) {
			continue
		}
		fmt.Fprintf(s.app.stderr, "xray: warning: object %d was given as %s; by the order of constructors it is %s, "+
			"and names may be wrong: --object auto takes that order\n", i+1, t.Object().Path, path)
	}
}

// sameFile reports whether two paths are of one file, or of copies with one name.
func sameFile(a, b string) bool {
	if filepath.Base(a) == filepath.Base(b) {
		return true
	}
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// warnOfSleds tells of files whose functions cannot have made the first records of the
// trace: nothing else in it tells of a program that was built anew.
func (s *session) warnOfSleds(names *symbolize.Packed) error {
	left := 1 << 16
	for b, err := range s.trace.Blocks(reader.FileOrder) {
		if err != nil {
			return err
		}
		if e, ok := names.Contradicts(b.Events); ok {
			object, function := symbolize.Unpack(e.Func)
			fmt.Fprintf(s.app.stderr, "xray: warning: the trace has a %v record of %s, and %s has no sled for it: "+
				"it is not the file that was traced, and its names are wrong\n",
				e.Kind, functionOf(object, function), symbolize.TableOf(names, e.Func).Object().Path)
			return nil
		}
		if left -= len(b.Events); left < 0 {
			return nil
		}
	}
	return nil
}

// noteObjects has it told which objects lacked a file, or had one that does not fit:
// in the summary, and when the names are closed, as some reports ask for names later.
func (s *session) noteObjects(names *symbolize.Packed, tables symbolize.Objects, cut bool) {
	said := ""
	note := func() string {
		text := objectNote(names, tables, cut)
		if text == said {
			return ""
		}
		said = text
		return text
	}
	s.notes = append(s.notes, note)
	closeNames := s.closeNames
	s.closeNames = func() error {
		if text := note(); text != "" {
			fmt.Fprintf(s.app.stderr, "xray: %s\n", text)
		}
		return closeNames()
	}
}

// objectNote says after a report which objects lacked a file, or had one that does
// not fit.
func objectNote(names *symbolize.Packed, tables symbolize.Objects, cut bool) string {
	all := cut
	for object := 1; object < 16; object++ {
		all = all && names.Largest(uint8(object)) > 0
	}
	var unknown, notes []string
	for object := range 256 {
		function := names.Largest(uint8(object))
		switch t := largestFile(tables, object, cut); {
		case function == 0:
		case t == nil:
			unknown = append(unknown, strconv.Itoa(object))
		case function > lastID(t):
			why := "it is not the file that was traced, and its names are wrong"
			if all {
				why += fmt.Sprintf(", or object %d was called", object+16)
			}
			notes = append(notes, fmt.Sprintf("%s was called, and %s has %d: %s", functionOf(uint8(object), function), t.Object().Path, lastID(t), why))
		}
	}
	if len(unknown) > 0 && unknown[0] != "0" {
		notes = append(notes, fmt.Sprintf("functions of shared objects are shown by number, those of object %s: "+
			"give the files with --object N=FILE, or try --object auto", strings.Join(unknown, ", ")))
	}
	if all {
		notes = append(notes, "FDR logs keep 4 bits of the number of an object, and there were 15 or more: "+
			"what is shown as the program's may be of object 16, what is shown as object 1's of object 17, and so on")
	}
	return strings.Join(notes, "\nxray: ")
}

func functionOf(object uint8, function reader.FuncID) string {
	if object == 0 {
		return fmt.Sprintf("function %d of the program", function)
	}
	return fmt.Sprintf("function %d of object %d", function, object)
}

// largestFile is the one that has the most functions of those that a number in the trace
// may mean; nil when there is none. cut is as in [symbolize.NewPacked].
func largestFile(tables symbolize.Objects, object int, cut bool) *symbolize.Table {
	if !cut {
		return tables[uint8(object)]
	}
	var file *symbolize.Table
	for n := object; n < 256; n += 16 {
		if t := tables[uint8(n)]; t != nil && (file == nil || lastID(t) > lastID(file)) {
			file = t
		}
	}
	return file
}

// lastID is the largest id of a map.
func lastID(t *symbolize.Table) reader.FuncID {
	functions := t.Map().Functions
	if len(functions) == 0 {
		return 0
	}
	return functions[len(functions)-1].ID
}

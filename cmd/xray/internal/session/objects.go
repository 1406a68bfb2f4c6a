package session

import (
	"debug/elf"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// Traces of LLVM's runtimes do not say which files their IDs belong to. The functions below
// detect files that cannot be the right ones.

// checkKinds rejects files that cannot belong to the objects for which they were given.
func checkKinds(files map[int]string) error {
	for _, object := range slices.Sorted(maps.Keys(files)) {
		path := files[object]
		if object == 0 && symbolize.IsSharedObject(path) {
			return cli.Usagef("-m %s: this is a shared object, but -m takes the program: "+
				"pass it as --object N=%s, or pass the program with --object auto", path, path)
		}
		if object > 0 && symbolize.IsProgram(path) {
			return cli.Usagef("--object %d=%s: this is a program, but object %d is a shared object: pass the program with -m", object, path, object)
		}
	}
	return nil
}

// checkGiven compares the files that were given, or guessed if auto is set, with each other and
// with the trace.
func (s *Session) checkGiven(names *symbolize.Packed, auto bool, search symbolize.Search) error {
	s.warnOfOrder(search)
	if s.Trace == nil {
		return nil
	}
	if auto {
		if err := s.checkObjects(names); err != nil {
			return err
		}
	}
	s.noteObjects(names)
	if search.IgnoreBuildID {
		return nil
	}
	return s.warnOfSleds(names)
}

// warnOfOrder warns of shared objects whose numbers do not fit the order in which the program's
// loader runs constructors.
func (s *Session) warnOfOrder(search symbolize.Search) {
	tables := s.tables
	if len(tables) == 1 || tables[0] == nil {
		return
	}
	linked, _, err := symbolize.LinkedObjects(tables[0].Object().Path, search)
	if err != nil {
		return // a map, or a program whose objects are elsewhere
	}
	for i, path := range linked {
		if i+1 >= len(tables) {
			break
		}
		t := tables[i+1]
		if t == nil || t.Map().Class == elf.ELFCLASSNONE || sameFile(t.Object().Path, path) {
			continue
		}
		s.Say("warning: object %d was given as %s; by the order of constructors it is %s, "+
			"and names may be wrong: --object auto uses that order", i+1, t.Object().Path, path)
	}
}

// sameFile reports whether two paths name the same file, or copies with the same name.
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

// warnOfSleds warns of files whose functions cannot have made the first records of the trace.
// Nothing else in it reveals that the program was rebuilt.
func (s *Session) warnOfSleds(names *symbolize.Packed) error {
	left := 1 << 16
	for b, err := range s.Trace.Blocks(reader.FileOrder) {
		if err != nil {
			return err
		}
		if e, ok := names.Contradicts(b.Events); ok {
			object, function := symbolize.Unpack(e.Func)
			s.Say("warning: the trace has a %v record of %s, and %s has no sled for it: "+
				"it is not the file that was traced, and its names are wrong",
				e.Kind, functionOf(object, function), symbolize.TableOf(names, e.Func).Object().Path)
			return nil
		}
		if left -= len(b.Events); left < 0 {
			return nil
		}
	}
	return nil
}

// checkObjects compares the guessed files with the IDs in the trace.
func (s *Session) checkObjects(names *symbolize.Packed) error {
	var mu sync.Mutex
	var largest [256]reader.FuncID
	err := s.Trace.Each(0, func(_ int, b *reader.Block) error {
		var seen [256]reader.FuncID
		for i := range b.Events {
			object, function := symbolize.Unpack(b.Events[i].Func)
			seen[object] = max(seen[object], function)
		}
		mu.Lock()
		defer mu.Unlock()
		for i := range largest {
			largest[i] = max(largest[i], seen[i])
		}
		return nil
	})
	if err != nil {
		return err
	}
	for object, function := range largest {
		file := largestFile(names, uint8(object))
		switch {
		case function == 0:
		case file == nil:
			return fmt.Errorf("--object auto: the trace has functions of object %d, but the program is linked with fewer objects: "+
				"the object was loaded by dlopen, or this is not the traced program. Pass the files with --object N=FILE", object)
		case function > lastID(file):
			return fmt.Errorf("--object auto: object %d cannot be %s: the trace has its function %d, but the file has only %s. "+
				"Pass the right files with --object N=FILE", object, file.Object().Path, function,
				label.Count(uint64(len(file.Map().Functions)), "function", "functions"))
		}
	}
	return nil
}

// noteObjects reports objects that have no file or a file that does not match. It does so in
// the summary, and when the session closes, because some reports look up names later.
func (s *Session) noteObjects(names *symbolize.Packed) {
	said := ""
	note := func() string {
		text := objectNote(names)
		if text == said {
			return ""
		}
		said = text
		return text
	}
	s.Note(note)
	s.closers = append(s.closers, func() error {
		if text := note(); text != "" {
			fmt.Fprintf(s.Stderr, "xray: %s\n", text)
		}
		return nil
	})
}

// objectNote returns the note after a report about objects that have no file, or a file that does
// not match.
func objectNote(names *symbolize.Packed) string {
	all := names.Cut()
	for object := 1; object < 16; object++ {
		all = all && names.Largest(uint8(object)) > 0
	}
	var unknown, notes []string
	for object := range 256 {
		function := names.Largest(uint8(object))
		switch t := largestFile(names, uint8(object)); {
		case function == 0:
		case t == nil:
			unknown = append(unknown, strconv.Itoa(object))
		case function > lastID(t):
			why := "it is not the file that was traced, and its names are wrong"
			if all {
				why += fmt.Sprintf(", or object %d was called", object+16)
			}
			notes = append(notes, fmt.Sprintf("%s was called, but the last function of %s is %d: %s", functionOf(uint8(object), function), texttab.Printable(t.Object().Path), lastID(t), why))
		}
	}
	if len(unknown) > 0 && unknown[0] != "0" {
		notes = append(notes, fmt.Sprintf("functions of object %s are shown by number: "+
			"pass the files of shared objects with --object N=FILE, or try --object auto", strings.Join(unknown, ", ")))
	}
	if all {
		notes = append(notes, "FDR logs keep only 4 bits of an object's number, and the trace has 15 or more shared objects: "+
			"functions shown as the program's may belong to object 16, those of object 1 to object 17, and so on")
	}
	return strings.Join(notes, "\nxray: ")
}

func functionOf(object uint8, function reader.FuncID) string {
	if object == 0 {
		return fmt.Sprintf("function %d of the program", function)
	}
	return fmt.Sprintf("function %d of object %d", function, object)
}

// largestFile returns the file with the most functions among those that a number in the trace
// may belong to, or nil.
func largestFile(names *symbolize.Packed, object uint8) *symbolize.Table {
	var file *symbolize.Table
	for _, t := range names.Candidates(object) {
		if file == nil || lastID(t) > lastID(file) {
			file = t
		}
	}
	return file
}

// lastID returns the largest ID of a map.
func lastID(t *symbolize.Table) reader.FuncID {
	functions := t.Map().Functions
	if len(functions) == 0 {
		return 0
	}
	return functions[len(functions)-1].ID
}

// DataAt returns the name of the variable at an address in the memory of a recorded process, or "" if
// it is not known.
func (s *Session) DataAt(file int32, address uint64) string {
	objects, _, err := s.Trace.Objects()
	if err != nil {
		return ""
	}
	if file < 0 || int(file) >= len(s.Trace.Files()) {
		return ""
	}
	r := s.Trace.Recording(int(file))
	if r == nil {
		return ""
	}
	for _, own := range r.Objects {
		for i := range objects {
			if own.Count == 0 || objects[i].First != own.First || objects[i].Count == 0 {
				continue
			}
			if name := s.Table(i).DataAt(address - uint64(own.Bias)); name != "" {
				return name
			}
		}
	}
	return ""
}

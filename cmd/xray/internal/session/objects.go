package session

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

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
	wrong := symbolize.OutOfOrder(s.tables, search)
	for _, n := range slices.Sorted(maps.Keys(wrong)) {
		s.Say("warning: object %d was given as %s; by the order of constructors it is %s, "+
			"and names may be wrong: --object auto uses that order", n, s.tables[n].Object().Path, wrong[n])
	}
}

// warnOfSleds warns of files whose functions cannot have made the first records of the trace.
func (s *Session) warnOfSleds(names *symbolize.Packed) error {
	e, ok, err := names.ContradictedBy(s.Trace)
	if ok {
		object, function := symbolize.Unpack(e.Func)
		s.Say("warning: the trace has a %v record of %s, and %s has no sled for it: "+
			"it is not the file that was traced, and its names are wrong",
			e.Kind, functionOf(object, function), symbolize.TableOf(names, e.Func).Object().Path)
	}
	return err
}

// checkObjects compares the guessed files with the IDs in the trace.
func (s *Session) checkObjects(names *symbolize.Packed) error {
	wrong, err := names.MismatchesIn(s.Trace)
	if err != nil || len(wrong) == 0 {
		return err
	}
	m := wrong[0]
	if m.File == nil {
		return fmt.Errorf("--object auto: the trace has functions of object %d, but the program is linked with fewer objects: "+
			"the object was loaded by dlopen, or this is not the traced program. Pass the files with --object N=FILE", m.Object)
	}
	return fmt.Errorf("--object auto: object %d cannot be %s: the trace has its function %d, but the file has only %s. "+
		"Pass the right files with --object N=FILE", m.Object, m.File.Object().Path, m.Function,
		label.Count(uint64(len(m.File.Map().Functions)), "function", "functions"))
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
	for _, m := range names.Mismatches() {
		if m.File == nil {
			unknown = append(unknown, strconv.Itoa(int(m.Object)))
			continue
		}
		why := "it is not the file that was traced, and its names are wrong"
		if all {
			why += fmt.Sprintf(", or object %d was called", m.Object+16)
		}
		notes = append(notes, fmt.Sprintf("%s was called, but the last function of %s is %d: %s", functionOf(m.Object, m.Function), texttab.Printable(m.File.Object().Path), m.File.LastID(), why))
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

// DataAt returns the name of the variable at an address in the memory of a recorded process, or "" if
// it is not known.
func (s *Session) DataAt(file int32, address uint64) string {
	return symbolize.DataAt(s.Trace, s.tables, file, address)
}

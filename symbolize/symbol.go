package symbolize

import (
	"cmp"
	"path"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Symbol describes a function. Unknown fields are zero.
type Symbol struct {
	Name    string // demangled, unless Options.Style is Mangled
	Linkage string // as in the symbol table; "" from a YAML map
	File    string // full path of the source file
	Line    int    // 1-based
	Column  int    // 1-based; 0 for none
	Address uint64 // link-time address; in an object file, within its section
}

func (s *Symbol) locate(l debuginfo.Location) {
	s.File, s.Line, s.Column = l.File, int(l.Line), int(l.Column)
}

// Names translates function ids to symbols. Implementations are safe for concurrent use. A nil
// Names knows no function.
type Names interface {
	// Func reports false for an id that is not in the instrumentation map. If the id is in
	// the map but has no symbol, Name is empty and Address is set.
	Func(reader.FuncID) (Symbol, bool)
}

// finder is implemented by the Names of this package, which consist of tables.
type finder interface {
	// find returns the table of a function, nil if there is none, and the id of the function
	// in that table.
	find(reader.FuncID) (*Table, reader.FuncID)
}

// namer is implemented by Names that change the names of others.
type namer interface {
	name(reader.FuncID) (Symbol, bool)
}

// Label is the name of a function in reports: "@(hexaddress)" if it has no name, "#id" if it
// is not in the map.
func Label(n Names, id reader.FuncID) string {
	var s Symbol
	ok := false
	switch n := n.(type) {
	case nil:
	case namer:
		s, ok = n.name(id)
	case finder:
		t, own := n.find(id)
		s, ok = t.name(own)
	default:
		s, ok = n.Func(id)
	}
	switch {
	case !ok:
		return cmp.Or(standIn(n, id), "#"+strconv.Itoa(int(id)))
	case s.Name == "":
		return "@(" + strconv.FormatUint(s.Address, 16) + ")"
	}
	return s.Name
}

// Location is the location of a function in reports: "file.cc:12:3" with the base name of the
// file, or "" if it is unknown. It omits the column if that is unknown, as it mostly is. n may be nil.
func Location(n Names, id reader.FuncID) string {
	return strings.TrimSuffix(LocationWithColumn(n, id), ":0")
}

// LocationWithColumn is [Location] as llvm-xray prints it, with an unknown column as 0.
func LocationWithColumn(n Names, id reader.FuncID) string {
	if n == nil {
		return ""
	}
	s, ok := n.Func(id)
	if !ok || s.File == "" {
		return ""
	}
	return shortLocation(s.File, s.Line, s.Column)
}

func shortLocation(file string, line, column int) string {
	// Programs that were built on Windows for another system have backslashes.
	base := path.Base(file)
	if strings.ContainsRune(file, '\\') && !strings.HasPrefix(file, "/") {
		base = base[strings.LastIndexByte(base, '\\')+1:]
	}
	return base + ":" + strconv.Itoa(line) + ":" + strconv.Itoa(column)
}

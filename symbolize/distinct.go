package symbolize

import (
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/xray-tools/xray/reader"
)

// Others returns the names of the other functions at the address of a function: linkers fold equal
// functions into one, so it is not known which of them was called.
func Others(n Names, id reader.FuncID) []string {
	f, ok := n.(finder)
	if !ok {
		return nil
	}
	t, own := f.find(id)
	if t == nil {
		return nil
	}
	if i, ok := t.m.index(own); ok {
		return t.others(i)
	}
	return nil
}

// WithOthers returns names that are followed by the number of other functions at the address. See
// [Others]. n consists of the Names of this package. It is safe for concurrent use.
func WithOthers(n Names) Names {
	if n == nil {
		return nil
	}
	of := &distinct{Names: n, namesakes: func() map[string]namesakes { return nil }}
	if d, ok := n.(*distinct); ok {
		of.Names, of.namesakes = d.Names, d.namesakes
	}
	of.others = make(map[reader.FuncID]int)
	return of
}

// Distinct returns names that tell functions of one name apart: " [OBJECT]" follows the name of a
// function that several objects have, and " [FILE]" that of one which several source files of an
// object have. n consists of the Names of this package. It is safe for concurrent use.
func Distinct(n Names) Names {
	if n == nil {
		return nil
	}
	return &distinct{Names: n, namesakes: sync.OnceValue(func() map[string]namesakes { return findNamesakes(inner(n)) })}
}

type distinct struct {
	Names
	namesakes func() map[string]namesakes // by linkage name; only of functions that have some
	mu        sync.Mutex
	others    map[reader.FuncID]int // at the same address; nil to say nothing of these
}

// othersOf returns the number of other functions at the address of a function.
func (d *distinct) othersOf(id reader.FuncID) int {
	if d.others == nil {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	n, known := d.others[id]
	if !known {
		n = len(Others(d.Names, id))
		d.others[id] = n
	}
	return n
}

// namesakes says where functions of one name are.
type namesakes struct{ objects, files bool }

// inner returns the names that n shortens, groups or makes distinct.
func inner(n Names) Names {
	for {
		switch of := n.(type) {
		case *shortNames:
			n = of.Names
		case *Templates:
			n = of.Names
		case *distinct:
			n = of.Names
		default:
			return n
		}
	}
}

func findNamesakes(n Names) map[string]namesakes {
	first := make(map[string]*Table)
	found := make(map[string]namesakes)
	eachFunction(n, func(_ reader.FuncID, t *Table, i int) {
		name := localName(t.linkage[i])
		if name == "" {
			return
		}
		switch other := first[name]; {
		case other == nil:
			first[name] = t
		case other != t:
			found[name] = namesakes{true, found[name].files}
		default:
			found[name] = namesakes{found[name].objects, true}
		}
	})
	return found
}

// localName returns a linkage name without what LLVM adds to make local names unique.
func localName(linkage string) string {
	for _, suffix := range []string{".__uniq.", ".llvm."} {
		linkage, _, _ = strings.Cut(linkage, suffix)
	}
	return linkage
}

// Func implements [Names].
func (d *distinct) Func(id reader.FuncID) (Symbol, bool) {
	s, ok := d.Names.Func(id)
	return d.qualify(s, id, func() string { return s.File }), ok
}

// name is Func without the location.
func (d *distinct) name(id reader.FuncID) (Symbol, bool) {
	n, ok := d.Names.(namer)
	if !ok {
		t, own := d.find(id)
		s, ok := t.name(own)
		if t == nil {
			s, ok = d.Names.Func(id)
		}
		return d.qualify(s, id, d.fileOf(id)), ok
	}
	s, ok := n.name(id)
	return d.qualify(s, id, d.fileOf(id)), ok
}

func (d *distinct) fileOf(id reader.FuncID) func() string {
	return func() string {
		s, _ := d.Names.Func(id)
		return s.File
	}
}

func (d *distinct) qualify(s Symbol, id reader.FuncID, file func() string) Symbol {
	linkage := s.Linkage
	if t, own := d.find(id); linkage == "" && t != nil {
		if i, ok := t.m.index(own); ok {
			linkage = t.linkage[i]
		}
	}
	if linkage == "" || s.Name == "" {
		return s
	}
	of := d.namesakes()[localName(linkage)]
	var where []string
	if of.objects {
		if object := ObjectName(d.Names, id); object != "" {
			where = append(where, object)
		}
	}
	if of.files {
		if path := file(); path != "" {
			where = append(where, filepath.Base(path))
		}
	}
	if len(where) > 0 {
		s.Name += " [" + strings.Join(where, " ") + "]"
	}
	if n := d.othersOf(id); n == 1 {
		s.Name += " and 1 other at this address"
	} else if n > 1 {
		s.Name += " and " + strconv.Itoa(n) + " others at this address"
	}
	return s
}

func (d *distinct) find(id reader.FuncID) (*Table, reader.FuncID) {
	if f, ok := d.Names.(finder); ok {
		return f.find(id)
	}
	return nil, id
}

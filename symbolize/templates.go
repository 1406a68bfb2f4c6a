package symbolize

import (
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/demangle"
)

// arguments replaces the template arguments in names of groups.
const arguments = "<...>"

// Templates is Names that treats all instances of a template as one function. The function's name
// has <...> in place of template arguments, and no parameters. It is safe for concurrent use.
type Templates struct {
	Names
	first map[reader.FuncID]reader.FuncID // first instance of the template, by instance
	names map[reader.FuncID]string        // names of templates, by first instance
}

// GroupTemplates groups the instances of templates among all functions of n. Functions are
// instances of one template if their names differ only in template arguments, parameters and
// results, and if they have the same location. Without locations, overloads of a template are
// one group. n must be of a type that [IDs] supports.
func GroupTemplates(n Names) *Templates {
	type template struct {
		name string
		file string
		line int32
	}
	t := &Templates{Names: n, first: make(map[reader.FuncID]reader.FuncID), names: make(map[reader.FuncID]string)}
	found := make(map[template]reader.FuncID)
	eachFunction(n, func(id reader.FuncID, table *Table, i int) {
		full := demangle.Name(table.linkage[i])
		key := template{name: demangle.Template(full, arguments)}
		if !strings.Contains(key.name, arguments) {
			return
		}
		l := table.location(i)
		key.file, key.line = l.File, l.Line
		first, ok := found[key]
		if !ok {
			first = id
			found[key] = id
			t.names[id] = key.name
			if table.opts.Style == Short {
				t.names[id] = demangle.Short(full)
			}
		}
		t.first[id] = first
	})
	return t
}

// Alias returns the function that stands for all instances of a template: the one with the
// smallest id in the first object. Other functions stand for themselves.
func (t *Templates) Alias(id reader.FuncID) reader.FuncID {
	if first, ok := t.first[id]; ok {
		return first
	}
	return id
}

// Func implements [Names]. It returns the symbol of [Templates.Alias] with the name of the template.
func (t *Templates) Func(id reader.FuncID) (Symbol, bool) {
	id = t.Alias(id)
	s, ok := t.Names.Func(id)
	return t.rename(s, id), ok
}

func (t *Templates) name(id reader.FuncID) (Symbol, bool) {
	table, own := t.find(id)
	s, ok := table.name(own)
	return t.rename(s, t.Alias(id)), ok
}

func (t *Templates) rename(s Symbol, first reader.FuncID) Symbol {
	if name, ok := t.names[first]; ok {
		s.Name = name
	}
	return s
}

func (t *Templates) find(id reader.FuncID) (*Table, reader.FuncID) {
	if n, ok := t.Names.(finder); ok {
		return n.find(t.Alias(id))
	}
	return nil, id
}

// IDs returns the IDs of all functions of a *Table, *Stored, *Packed or *Recorded, always in the same
// order. It returns nil for other types.
func IDs(n Names) (list []reader.FuncID) {
	eachFunction(n, func(id reader.FuncID, _ *Table, _ int) { list = append(list, id) })
	return list
}

// eachFunction calls visit for the functions of n, with their ids and their indexes in
// m.Functions of their table. The order is always the same.
func eachFunction(n Names, visit func(id reader.FuncID, t *Table, i int)) {
	eachTable(n, func(t *Table, offset reader.FuncID) {
		for i := range t.m.Functions {
			visit(t.m.Functions[i].ID+offset, t, i)
		}
	})
}

// eachTable calls visit for the tables of n, with the offset from function IDs in the table to
// those in n. The order is always the same.
func eachTable(n Names, visit func(t *Table, offset reader.FuncID)) {
	all := func(t *Table, offset reader.FuncID) {
		if t != nil {
			visit(t, offset)
		}
	}
	switch n := n.(type) {
	case *valueNames:
		eachTable(n.Names, visit)
	case *Table:
		all(n, 0)
	case *Stored:
		for _, t := range n.tables {
			all(t, 0)
		}
	case *Packed:
		for object, tables := range n.tables {
			if len(tables) == 1 { // functions of ambiguous objects have no names
				all(tables[0], reader.FuncID(object<<24))
			}
		}
	case *Recorded:
		for i, t := range n.tables {
			if n.owners != nil {
				all(t, 0)
			} else {
				all(t, n.objects[i].First-1)
			}
		}
	}
}

package symbolize

import (
	"bytes"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-delve/delve/pkg/dwarf/godwarf"
	"github.com/go-delve/delve/pkg/dwarf/line"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// oracle has what delve's packages find in a program. They share no code with this package.
type oracle struct {
	data      *dwarf.Data
	functions map[uint64]*oracleFunction // by address
}

type oracleFunction struct {
	tree  *godwarf.Tree
	files []*dwarf.LineFile // of the unit
	lines *line.DebugLineInfo
}

func newOracle(t *testing.T, path string) *oracle {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	section := func(name string) []byte {
		if s := f.Section(name); s != nil {
			b, err := s.Data()
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		return nil
	}
	o := &oracle{functions: make(map[uint64]*oracleFunction)}
	if o.data, err = f.DWARF(); err != nil {
		t.Fatal(err)
	}
	tables, strings := section(".debug_line"), section(".debug_line_str")
	var unit oracleFunction
	for r := o.data.Reader(); ; {
		e, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			return o
		}
		switch e.Tag {
		case dwarf.TagCompileUnit:
			unit = oracleFunction{}
			if at, ok := e.Val(dwarf.AttrStmtList).(int64); ok {
				dir, _ := e.Val(dwarf.AttrCompDir).(string)
				unit.lines = line.Parse(dir, bytes.NewBuffer(tables[at:]), strings, nil, 0, false, 8)
				rows, err := o.data.LineReader(e)
				if err != nil {
					t.Fatal(err)
				}
				unit.files = rows.Files()
			}
		case dwarf.TagSubprogram:
			if ranges, err := o.data.Ranges(e); err == nil && len(ranges) > 0 {
				function := unit
				if function.tree, err = godwarf.LoadTree(e.Offset, o.data, 0); err != nil {
					t.Fatal(err)
				}
				o.functions[ranges[0][0]] = &function
			}
		}
	}
}

// definition returns the location where the entry's function is declared.
func (f *oracleFunction) definition() string {
	return f.place(f.tree.Entry, dwarf.AttrDeclFile, dwarf.AttrDeclLine)
}

func (f *oracleFunction) place(e godwarf.Entry, file, line dwarf.Attr) string {
	n, _ := e.Val(line).(int64)
	if i, ok := e.Val(file).(int64); ok && i < int64(len(f.files)) && f.files[i] != nil {
		return fmt.Sprint(filepath.Clean(f.files[i].Name), ":", n)
	}
	return ""
}

// inlined lists the calls inlined into a function, as "depth function called at file:line".
func (f *oracleFunction) inlined() (list []string) {
	var walk func(t *godwarf.Tree, depth int)
	walk = func(t *godwarf.Tree, depth int) {
		for _, c := range t.Children {
			inside := depth
			switch c.Tag {
			case dwarf.TagInlinedSubroutine:
				inside++
				name := ""
				for _, attr := range []dwarf.Attr{dwarf.AttrLinkageName, dwarf.Attr(0x2007) /* DW_AT_MIPS_linkage_name */, dwarf.AttrName} {
					if s, ok := c.Val(attr).(string); ok && name == "" {
						name = s
					}
				}
				list = append(list, fmt.Sprint(inside, " ", name, " called at ", f.place(c, dwarf.AttrCallFile, dwarf.AttrCallLine)))
			case dwarf.TagSubprogram:
				continue
			}
			walk(c, inside)
		}
	}
	walk(f.tree, 0)
	return list
}

// Lines, definitions and inlined calls agree with delve's reader of line tables and trees of
// entries.
func TestOracle(t *testing.T) {
	for _, v := range variants {
		switch v.name {
		case "O2-dwarf64", "split-dwarf4", "split-dwarf5", "object":
			continue // delve does not read these
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			compareWithOracle(t, elftest.Compile(t, program, v.args...), v.name != "tables-only")
		})
	}
	t.Run("kvserver", func(t *testing.T) { compareWithOracle(t, kvserver, true) })
}

func compareWithOracle(t *testing.T, path string, full bool) {
	o := newOracle(t, path)
	table := load(t, path)
	code, err := Load(path, Options{Options: debuginfo.Options{Code: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer code.Close()
	place := func(s Symbol) string { return fmt.Sprint(filepath.Clean(s.File), ":", s.Line) }
	lines, definitions, inlined := 0, 0, 0
	for _, f := range table.Map().Functions {
		of := o.functions[f.Address]
		if of == nil {
			continue
		}
		here, _ := code.Func(f.ID)
		if file, n := of.lines.PCToLine(f.Address, f.Address); n != 0 { // line 0 means no line
			lines++
			if want := fmt.Sprint(filepath.Clean(file), ":", n); place(here) != want {
				t.Errorf("%s: got line %s, want %s as in delve", here.Name, place(here), want)
			}
		}
		if !full {
			continue
		}
		defined, _ := table.Func(f.ID)
		if want := of.definition(); want != "" {
			definitions++
			if place(defined) != want {
				t.Errorf("%s: got definition %s, want %s as in delve", defined.Name, place(defined), want)
			}
		}
		var got []string
		for _, c := range table.Inlined(f.ID) {
			got = append(got, fmt.Sprint(c.Depth, " ", c.Linkage, " called at ", filepath.Clean(c.File), ":", c.Line))
		}
		want := of.inlined()
		inlined += len(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: got inlined calls\n%q\nwant as in delve\n%q", defined.Name, got, want)
		}
	}
	t.Logf("compared: %d lines, %d definitions, %d inlined calls", lines, definitions, inlined)
	if lines < 5 || full && definitions < 5 {
		t.Errorf("compared only %d lines, %d definitions", lines, definitions)
	}
}

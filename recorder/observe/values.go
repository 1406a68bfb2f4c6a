package observe

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/args"
	"github.com/xray-tools/xray/recorder/args/value"
	"github.com/xray-tools/xray/symbolize"
)

// mostRefused limits how many refusals of an object are written into its filter.
const mostRefused = 1 << 12

// values compiles what Args and Results ask for.
type values struct {
	filter  *Filter
	out     io.Writer
	logs    map[reader.FuncID]bool // the functions that log an argument
	refused []value.Refused
}

// logged is the argument that a function logs. The recorder records values instead of it, so it is the first of
// them, where readers of logged arguments expect it.
var logged = args.Value{
	Program:     args.Program{{Op: args.REG, A: 5}, {Op: args.SCALAR}}, // rdi, as in sleds of logged arguments
	Description: value.Description{Expression: "logged argument", Type: "uint64_t", Kind: value.Scalar, Format: value.Uint, Size: 8},
}

// wantsValues reports whether arguments or results are asked for, also for conditions.
func (f *Filter) wantsValues() bool { return len(f.Args)+len(f.Results)+len(f.When) > 0 }

// writeValues writes the values of functions of an object, in the format that the runtime reads, and what
// cannot be read, and that there are conditions.
func (f *Filter) writeValues(w io.Writer, table *symbolize.Table, ids []reader.FuncID) error {
	if len(f.When) > 0 {
		fmt.Fprintln(w, "when")
	}
	if !f.wantsValues() {
		return nil
	}
	v := values{filter: f, out: w, logs: make(map[reader.FuncID]bool)}
	for _, s := range table.Map().Sleds {
		if s.Kind == symbolize.LogArgsEntry {
			v.logs[s.ID] = true
		}
	}
	chosen := make(map[reader.FuncID]bool, len(ids))
	for _, id := range ids {
		chosen[id] = true
	}
	for _, fn := range table.Map().Functions {
		if chosen[fn.ID] {
			v.function(table, fn.ID)
		}
	}
	for _, r := range v.refused[:min(len(v.refused), mostRefused)] {
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "unread %s\n", line)
	}
	return nil
}

// function writes the values of a function, if there are any.
func (v *values) function(table *symbolize.Table, id reader.FuncID) {
	name := symbolize.Label(table, id)
	matching := func(specs []*args.Spec) []*args.Spec {
		return slices.DeleteFunc(slices.Clone(specs), func(s *args.Spec) bool { return !symbolize.Matches(s.Function, name) })
	}
	entry, exit := matching(v.filter.Args), matching(v.filter.Results)
	var when []*args.Condition
	for _, c := range v.filter.When {
		if symbolize.Matches(c.Function, name) {
			c.Used.Store(true)
			when = append(when, c)
		}
	}
	if len(entry)+len(exit)+len(when) == 0 {
		return
	}
	for _, s := range slices.Concat(entry, exit) {
		s.Used.Store(true)
	}
	symbol, _ := table.Func(id)
	fn, err := args.NewFunction(table.Binary(), symbol.Address, symbol.Linkage)
	if err != nil {
		v.refuse(name, args.Refused{Expression: expressions(append(entry, exit...)), Why: err.Error()})
		return
	}
	conditional := v.conditions(name, uint32(id), fn, when)
	programs := args.FunctionPrograms{ID: uint32(id)}
	var described struct {
		Entry []value.Description `json:"entry,omitempty"`
		Exit  []value.Description `json:"exit,omitempty"`
	}
	programs.Entry, described.Entry = v.compile(name, entry, fn.Entry)
	programs.Exit, described.Exit = v.compile(name, exit, fn.Exit)
	if v.logs[id] && (conditional || len(programs.Entry) > 0) {
		if last := args.MaxValues - 1; len(programs.Entry) > last {
			v.refuse(name, tooMany(described.Entry[last].Expression))
			programs.Entry, described.Entry = programs.Entry[:last], described.Entry[:last]
		}
		programs.Entry = slices.Insert(programs.Entry, 0, logged.Program)
		described.Entry = slices.Insert(described.Entry, 0, logged.Description)
	}
	if len(programs.Entry)+len(programs.Exit) == 0 {
		return
	}
	text, err := json.Marshal(described)
	if err != nil {
		return // only an invalid type can fail
	}
	fmt.Fprintf(v.out, "values %s %s\n", hex.EncodeToString(programs.Append(nil)), text[1:len(text)-1])
}

// conditions writes the condition of a function, if there is one.
func (v *values) conditions(name string, id uint32, fn *args.Function, when []*args.Condition) (written bool) {
	for i, c := range when {
		sent, err := c.Compile(nil, fn, id)
		if i > 0 {
			err = errors.New("the function has a condition already")
		}
		text, invalid := json.Marshal(c.Text)
		if err = cmp.Or(err, invalid); err != nil {
			v.refuse(name, args.Refused{Expression: c.Text, Why: err.Error()})
			continue
		}
		fmt.Fprintf(v.out, "when %s \"condition\":%s\n", hex.EncodeToString(sent), text)
		written = true
	}
	return written
}

// Unused returns the regular expressions of values and conditions that have matched no function so far.
func (f *Filter) Unused() (list []string) {
	if f == nil {
		return nil
	}
	for _, s := range slices.Concat(f.Args, f.Results) {
		if !s.Used.Load() {
			list = append(list, s.Pattern)
		}
	}
	for _, c := range f.When {
		if !c.Used.Load() {
			list = append(list, c.Pattern)
		}
	}
	return list
}

// compile compiles the expressions of a side of a function.
func (v *values) compile(name string, specs []*args.Spec, side func([]*args.Expression) ([]args.Value, []args.Refused)) (programs []args.Program, described []value.Description) {
	for _, s := range specs {
		list, refused := side(s.Expressions)
		for _, r := range refused {
			v.refuse(name, r)
		}
		for _, one := range list {
			if len(programs) == args.MaxValues {
				v.refuse(name, tooMany(one.Description.Expression))
				continue
			}
			programs, described = append(programs, one.Program), append(described, one.Description)
		}
	}
	return programs, described
}

func tooMany(expression string) args.Refused {
	return args.Refused{Expression: expression, Why: fmt.Sprintf("a function has at most %d values", args.MaxValues)}
}

func (v *values) refuse(name string, r args.Refused) {
	v.refused = append(v.refused, value.Refused{Function: name, Expression: r.Expression, Why: r.Why})
}

// expressions returns the expressions of specs as text.
func expressions(specs []*args.Spec) string {
	var b bytes.Buffer
	for _, s := range specs {
		for _, e := range s.Expressions {
			if b.Len() > 0 {
				b.WriteString(", ")
			}
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

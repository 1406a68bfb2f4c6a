package stack

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// frameJSON is a path. Its name parts are in the list of functions.
type frameJSON struct {
	ID        int           `json:"id"`
	Parent    int           `json:"parent"`
	Depth     int           `json:"depth"`
	Func      reader.FuncID `json:"function"`
	Count     uint64        `json:"count"`
	Total     uint64        `json:"total"`
	Self      uint64        `json:"self"`
	Open      uint64        `json:"open,omitempty"`
	OpenTotal uint64        `json:"open_total,omitempty"`
	OpenSelf  uint64        `json:"open_self,omitempty"`
}

type functionJSON struct {
	ID       reader.FuncID `json:"id"`
	Name     string        `json:"name"`
	Location string        `json:"location"`
}

// WriteJSON writes one object: "unit" ("ns" or "ticks", of all times), "trees"
// and "functions" ("id", "name", "location"). A tree has "thread", "process" and
// "file" (absent for all threads together) and "stacks": each is a function called
// through the stack whose id is its parent, 0 for none; parents come first. Times
// are integers, and those of calls still open at the end are apart. There is one
// stack or function a line. It returns the error of w.
func (r *Report) WriteJSON(w io.Writer, names symbolize.Names) error {
	b := bufio.NewWriter(w)
	var err error
	var scratch bytes.Buffer
	value := func(v any) {
		scratch.Reset()
		e := json.NewEncoder(&scratch)
		e.SetEscapeHTML(false) // C++ names are full of < and >
		if e := e.Encode(v); e != nil && err == nil {
			err = e
		}
		b.Write(bytes.TrimRight(scratch.Bytes(), "\n"))
	}

	b.WriteString(`{"unit": "` + r.Clock.Unit() + "\",\n\"trees\": [")
	var funcs []reader.FuncID
	seen := make(map[reader.FuncID]bool)
	separator := "\n"
	for t := range r.Trees() {
		b.WriteString(separator + "{")
		separator = ",\n"
		if t.Label != "" {
			b.WriteString(`"thread": `)
			value(t.Thread.Thread)
			b.WriteString(`, "process": `)
			value(t.Thread.Process)
			b.WriteString(`, "file": `)
			value(t.Thread.File)
			b.WriteString(", ")
		}
		b.WriteString(`"stacks": [`)
		for i := range t.Frames {
			f := &t.Frames[i]
			if !seen[f.Func] {
				seen[f.Func] = true
				funcs = append(funcs, f.Func)
			}
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteByte('\n')
			value(frameJSON{
				ID: i + 1, Parent: f.Parent + 1, Depth: f.Depth, Func: f.Func,
				Count: f.Count, Total: r.Clock.Nanos(f.Total), Self: r.Clock.Nanos(f.Self),
				Open: f.Open, OpenTotal: r.Clock.Nanos(f.OpenTotal), OpenSelf: r.Clock.Nanos(f.OpenSelf),
			})
		}
		b.WriteString("\n]}")
	}
	b.WriteString("\n],\n\"functions\": [")
	for i, id := range slices.Sorted(slices.Values(funcs)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteByte('\n')
		value(functionJSON{id, symbolize.Label(names, id), symbolize.Location(names, id)})
	}
	b.WriteString("\n]}\n")
	if err != nil {
		return err
	}
	return b.Flush()
}

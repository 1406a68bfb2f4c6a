package lookup

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/symbolize"
)

// Found is the answer to a query, and a line of JSON. Unknown fields are empty.
type Found struct {
	Input    string   `json:"input"`
	ID       *int32   `json:"id,omitempty"`
	Address  string   `json:"address,omitempty"`
	Object   string   `json:"object,omitempty"`
	Function string   `json:"function,omitempty"`
	Linkage  string   `json:"linkage_name,omitempty"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Into     []Place  `json:"inlined_into,omitempty"`
	Inlined  []Inline `json:"inlined,omitempty"`
}

// Place is a function that the code at an address was inlined into, with the location.
type Place struct {
	Function string `json:"function"`
	Linkage  string `json:"linkage_name,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
}

// Inline is a function that was inlined into another, with the location.
type Inline struct {
	Depth int `json:"depth"`
	Place
}

func (a *Found) fill(sym symbolize.Symbol, label string) {
	a.Address = fmt.Sprintf("%#x", sym.Address)
	a.Function, a.Linkage = label, sym.Linkage
	a.File, a.Line, a.Column = sym.File, sym.Line, sym.Column
}

// WriteJSON writes a line for each answer.
func WriteJSON(w io.Writer, answers []Found) error {
	b := bufio.NewWriter(w)
	e := json.NewEncoder(b)
	e.SetEscapeHTML(false)
	for i := range answers {
		if err := e.Encode(&answers[i]); err != nil {
			return err
		}
	}
	return b.Flush()
}

// WriteText writes a line for each answer, with those of inlined functions indented below.
func WriteText(w io.Writer, answers []Found) error {
	b := bufio.NewWriter(w)
	line := func(indent int, what string, p Place) {
		name, location := p.Function, ""
		if name == "" {
			name = "??"
		}
		if p.File != "" {
			location = fmt.Sprintf(" at %s:%d:%d", p.File, p.Line, p.Column)
		}
		fmt.Fprintf(b, "%*s%s%s%s\n", indent, "", what, texttab.Printable(name), texttab.Printable(location))
	}
	for i := range answers {
		a := &answers[i]
		line(0, "", Place{Function: a.Function, File: a.File, Line: a.Line, Column: a.Column})
		for _, p := range a.Into {
			line(2, "inlined into ", p)
		}
		for _, c := range a.Inlined {
			line(2*c.Depth, "inlines ", c.Place)
		}
	}
	return b.Flush()
}

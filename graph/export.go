package graph

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// statsJSON are the keys that edges and functions share. Times are integers in
// the unit that the document states; quantiles are absent where unknown.
type statsJSON struct {
	Count       uint64  `json:"count"`
	Open        uint64  `json:"open"`
	Inferred    uint64  `json:"inferred"`
	Sum         uint64  `json:"sum"`
	Self        uint64  `json:"self"`
	Min         uint64  `json:"min"`
	P50         *uint64 `json:"p50,omitempty"`
	P90         *uint64 `json:"p90,omitempty"`
	P99         *uint64 `json:"p99,omitempty"`
	P999        *uint64 `json:"p999,omitempty"`
	Max         uint64  `json:"max"`
	Approximate bool    `json:"approximate,omitempty"`
}

func newStatsJSON(s *Stats, k reader.Clock, quantiles bool) statsJSON {
	j := statsJSON{
		Count: s.Count, Open: s.Open, Inferred: s.Inferred,
		Sum: k.Nanos(s.Sum), Self: k.Nanos(s.Self), Min: k.Nanos(s.Min), Max: k.Nanos(s.Max),
		Approximate: s.Approximate,
	}
	if quantiles {
		q := [...]uint64{k.Nanos(s.P50), k.Nanos(s.P90), k.Nanos(s.P99), k.Nanos(s.P999)}
		j.P50, j.P90, j.P99, j.P999 = &q[0], &q[1], &q[2], &q[3]
	}
	return j
}

// WriteJSON writes one object: "unit" ("ns" or "ticks", of all times), "self"
// (of the whole trace), "left_out" (counts of "functions" and "edges" that were
// trimmed), "functions" ("id", "name", "location" and numbers) and "edges"
// ("caller" and "callee", which are ids, 0 for no caller; and numbers). There is
// one function or edge a line. It returns the error of w.
func (r *Report) WriteJSON(w io.Writer, names symbolize.Names) error {
	j := newDocument(w)
	j.field("unit", r.Clock.Unit())
	j.field("self", r.Clock.Nanos(r.Self))
	j.field("left_out", leftJSON{r.Left.Functions, r.Left.Edges})
	j.list("functions", len(r.Functions), func(i int) any {
		f := &r.Functions[i]
		return struct {
			ID       reader.FuncID `json:"id"`
			Name     string        `json:"name"`
			Location string        `json:"location"`
			statsJSON
		}{
			f.ID, symbolize.Label(names, f.ID), symbolize.Location(names, f.ID),
			newStatsJSON(&f.Stats, r.Clock, r.Quantiles),
		}
	})
	j.list("edges", len(r.Edges), func(i int) any {
		e := &r.Edges[i]
		return struct {
			Caller reader.FuncID `json:"caller"`
			Callee reader.FuncID `json:"callee"`
			statsJSON
		}{e.Caller, e.Callee, newStatsJSON(&e.Stats, r.Clock, r.Quantiles)}
	})
	return j.close()
}

type leftJSON struct {
	Functions int `json:"functions"`
	Edges     int `json:"edges"`
}

// document writes a JSON object whose lists have an element a line.
type document struct {
	b         *bufio.Writer
	scratch   bytes.Buffer
	separator string
	err       error
}

func newDocument(w io.Writer) *document {
	return &document{b: bufio.NewWriter(w), separator: "{\n"}
}

func (j *document) key(name string) {
	j.b.WriteString(j.separator + `"` + name + `": `)
	j.separator = ",\n"
}

func (j *document) value(v any) {
	j.scratch.Reset()
	e := json.NewEncoder(&j.scratch)
	e.SetEscapeHTML(false) // C++ names are full of < and >
	if err := e.Encode(v); err != nil && j.err == nil {
		j.err = err
	}
	j.b.Write(bytes.TrimRight(j.scratch.Bytes(), "\n"))
}

func (j *document) field(name string, v any) {
	j.key(name)
	j.value(v)
}

func (j *document) list(name string, n int, element func(int) any) {
	j.key(name)
	j.b.WriteString("[")
	for i := range n {
		if i > 0 {
			j.b.WriteString(",")
		}
		j.b.WriteString("\n")
		j.value(element(i))
	}
	j.b.WriteString("\n]")
}

func (j *document) close() error {
	j.b.WriteString("\n}\n")
	if j.err != nil {
		return j.err
	}
	return j.b.Flush()
}

// csvColumns are the numbers of a CSV row, in this order.
func csvColumns(quantiles bool) []Column {
	if quantiles {
		return []Column{Count, Sum, Self, Min, P50, P90, P99, P999, Max}
	}
	return []Column{Count, Sum, Self, Min, Max}
}

// csvHeader names the columns, times with their unit.
func csvHeader(columns []Column, unit string) []string {
	var header []string
	for _, c := range columns {
		name := c.String()
		if c != Count {
			name += "_" + unit
		}
		header = append(header, name)
	}
	return header
}

func csvValues(row []string, s *Stats, columns []Column, k reader.Clock) []string {
	for _, c := range columns {
		v := s.Value(c)
		if c != Count {
			v = k.Nanos(v)
		}
		row = append(row, strconv.FormatUint(v, 10))
	}
	return row
}

// WriteCSV writes the edges, one a row, below a header that states the unit of
// times. The caller of edges from outside the trace has id 0 and no name. It
// returns the error of w.
func (r *Report) WriteCSV(w io.Writer, names symbolize.Names) error {
	c := csv.NewWriter(w)
	columns := csvColumns(r.Quantiles)
	c.Write(append([]string{"caller_id", "caller", "callee_id", "callee", "open", "inferred"},
		csvHeader(columns, r.Clock.Unit())...))
	for i := range r.Edges {
		e := &r.Edges[i]
		caller := ""
		if e.Caller != Root {
			caller = texttab.CSVText(symbolize.Label(names, e.Caller))
		}
		c.Write(csvValues([]string{
			strconv.Itoa(int(e.Caller)), caller,
			strconv.Itoa(int(e.Callee)), texttab.CSVText(symbolize.Label(names, e.Callee)),
			strconv.FormatUint(e.Open, 10), strconv.FormatUint(e.Inferred, 10),
		}, &e.Stats, columns, r.Clock))
	}
	c.Flush()
	return c.Error()
}

package report

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// A datum is one value for programs.
type datum struct {
	null   bool
	quoted bool   // s is text, not a number or a boolean
	s      string // in JSON's form without quotes; empty for rows
	list   []datum
	rows   *TableNode
}

func number64(n uint64) datum  { return datum{s: strconv.FormatUint(n, 10)} }
func integer(n int32) datum    { return datum{s: strconv.Itoa(int(n))} }
func quotation(s string) datum { return datum{s: s, quoted: true} }
func truthValue(ok bool) datum { return datum{s: strconv.FormatBool(ok)} }
func floating(f float64) datum {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return datum{null: true} // JSON cannot represent it
	}
	format := byte('g')
	if abs := math.Abs(f); abs >= 1 && abs < 1e21 {
		format = 'f' // 1000000 and not 1e+06
	}
	return datum{s: strconv.FormatFloat(f, format, -1, 64)}
}

// keys returns the keys of a column, in the order of [Doc.data].
func (d *Doc) keys(c *column) []string {
	if c.interval {
		end := column{kind: c.kind, key: c.key + "_low"}
		low := d.keys(&end)
		end.key = c.key + "_high"
		return append(low, d.keys(&end)...)
	}
	switch c.kind {
	case duration, mean, moment:
		return []string{c.key + "_" + d.Clock.Unit()}
	case size:
		return []string{c.key + "_bytes"}
	case function:
		list := []string{c.key, c.key + "_id"}
		if c.place {
			list = append(list, prefix(c.key, "function")+"location")
		}
		return list
	case path:
		return []string{c.key, c.key + "_ids"}
	case thread:
		p := prefix(c.key, "thread")
		return []string{p + "file", p + "process", p + "thread", p + "thread_name"}
	}
	return []string{c.key}
}

// prefix returns the prefix of the keys of a column: none if its key is the standard one of
// its kind.
func prefix(key, standard string) string {
	if key == standard {
		return ""
	}
	return key + "_"
}

// data appends the values of a cell, one for each of its keys.
func (d *Doc) data(list []datum, c *column, v cell) []datum {
	if v.missing {
		for range d.keys(c) {
			list = append(list, datum{null: true})
		}
		return list
	}
	if c.interval {
		end := column{kind: c.kind}
		return d.data(d.data(list, &end, cell{f: v.f}), &end, cell{f: v.to})
	}
	switch c.kind {
	case text:
		return append(list, quotation(v.s))
	case count, size:
		return append(list, number64(v.n))
	case number, share:
		return append(list, floating(v.f))
	case duration:
		return append(list, d.nanos(v))
	case mean:
		return append(list, floating(d.meanNanos(v.f)))
	case moment:
		return append(list, number64(d.Clock.Nanos(v.n-d.Start)))
	case flag:
		return append(list, truthValue(v.n != 0))
	case function:
		list = append(list, quotation(d.label(functionOf(v))), integer(int32(functionOf(v))))
		if c.place {
			list = append(list, quotation(d.place(v)))
		}
		return list
	case path:
		names, ids := datum{list: []datum{}}, datum{list: []datum{}}
		for _, id := range v.path {
			names.list = append(names.list, quotation(d.label(id)))
			ids.list = append(ids.list, integer(int32(id)))
		}
		return append(list, names, ids)
	case namePath:
		path := datum{list: []datum{}}
		for _, name := range v.names {
			path.list = append(path.list, quotation(name))
		}
		return append(list, path)
	case thread:
		t := v.thread
		return append(list, integer(t.File+1), integer(t.Process), integer(t.Thread), quotation(d.Threads.NameOf(t)))
	case value:
		return append(list, valueDatum(v.v))
	case rows:
		if v.rows == nil {
			return append(list, datum{list: []datum{}})
		}
		return append(list, datum{rows: v.rows})
	}
	panic("unknown kind of cell")
}

// valueDatum returns a value of a database.
func valueDatum(v any) datum {
	switch v := v.(type) {
	case int64:
		return datum{s: strconv.FormatInt(v, 10)}
	case float64:
		return floating(v)
	case string:
		return quotation(v)
	case []byte:
		return quotation(hex.EncodeToString(v))
	}
	return datum{null: true}
}

// bufferSize is the size of the buffer for large tables.
const bufferSize = 64 << 10

const nanosPerSecond = 1_000_000_000

// nanos returns a duration in whole nanoseconds, rounded to the nearest, or in ticks.
func (d *Doc) nanos(v cell) datum {
	sum := quantile.Sum{Hi: v.high, Lo: v.n}
	if !d.Clock.Known() && v.high != 0 {
		return datum{s: sum.Big().String()}
	}
	if !d.Clock.Known() || v.high == 0 && v.n < math.MaxUint64/nanosPerSecond {
		return number64(d.Clock.Nanos(v.n))
	}
	f := new(big.Int).SetUint64(d.Clock.Frequency)
	n, rest := new(big.Int).QuoRem(new(big.Int).Mul(sum.Big(), big.NewInt(nanosPerSecond)), f, new(big.Int))
	// A tie goes to the even number, as in reader.Clock.
	if c := rest.Lsh(rest, 1).Cmp(f); c > 0 || c == 0 && n.Bit(0) == 1 {
		n.Add(n, big.NewInt(1))
	}
	return datum{s: n.String()}
}

// meanNanos converts a mean.
func (d *Doc) meanNanos(ticks float64) float64 {
	if d.Clock.Known() && d.Clock.Frequency != nanosPerSecond {
		return ticks * nanosPerSecond / float64(d.Clock.Frequency)
	}
	return ticks
}

// plainNumber returns the value of a cell that is a single 64-bit number.
func (d *Doc) plainNumber(c *column, v *cell) (n uint64, ok bool) {
	switch {
	case v.missing:
		return 0, false
	case c.kind == count:
		return v.n, true
	case c.kind == duration && v.high == 0 && v.n < math.MaxUint64/nanosPerSecond:
		return d.Clock.Nanos(v.n), true
	}
	return 0, false
}

// CSV.

// firstTable returns the table that CSV contains.
func firstTable(body []Node) *TableNode {
	for _, n := range body {
		switch n := n.(type) {
		case *TableNode:
			return n
		case *Section:
			if t := firstTable(n.Body); t != nil {
				return t
			}
		case Programs:
			if t := firstTable(n); t != nil {
				return t
			}
		case *Drawing:
			if t := firstTable([]Node{n.Data}); t != nil {
				return t
			}
		}
	}
	return nil
}

func (d *Doc) writeCSV(w io.Writer) error {
	t := firstTable(d.Body)
	if t == nil {
		return nil
	}
	b := bufio.NewWriterSize(w, bufferSize)
	var (
		cells []string
		data  []datum
	)
	if t.level != nil {
		cells = append(cells, "level")
	}
	for i := range t.columns {
		if c := &t.columns[i]; c.programs && !c.nested {
			cells = append(cells, d.keys(c)...)
		}
	}
	b.WriteString(texttab.CSVRow(cells...))
	for row := 0; t.has(row); row++ {
		cells = cells[:0]
		if t.level != nil {
			cells = append(cells, strconv.Itoa(t.level(row)))
		}
		for i := range t.columns {
			c := &t.columns[i]
			if !c.programs || c.nested {
				continue
			}
			v := t.cell(row, i)
			data = d.data(data[:0], c, v)
			for j, datum := range data {
				cells = append(cells, d.csvCell(c, v, j, datum))
			}
		}
		b.WriteString(texttab.CSVRow(cells...))
	}
	return b.Flush()
}

// csvCell returns a datum as a cell.
func (d *Doc) csvCell(c *column, v cell, i int, x datum) string {
	switch {
	case x.null:
		return ""
	case c.kind == path && i == 0:
		return d.pathNames(v.path)
	case c.kind == namePath:
		return strings.Join(v.names, " > ")
	case c.kind == rows:
		return v.s
	case x.list != nil:
		s := ""
		for i, e := range x.list {
			if i > 0 {
				s += " "
			}
			s += e.s
		}
		return s
	}
	return x.s
}

// JSON.

// jsonWriter writes an object. Elements of arrays of objects are on separate lines.
type jsonWriter struct {
	doc    *Doc
	w      *bufio.Writer
	indent int
	first  bool // in the current object
}

func (d *Doc) writeJSON(w io.Writer) error {
	j := &jsonWriter{doc: d, w: bufio.NewWriterSize(w, bufferSize)}
	j.open('{')
	j.key("report")
	j.datum(quotation(d.Kind))
	j.key("version")
	j.datum(number64(version))
	if d.Late == nil {
		j.strings("caveats", d.Caveats)
	}
	j.nodes(d.Body)
	if d.Late != nil {
		j.strings("caveats", d.Late())
	}
	if others := d.others(); others != nil {
		j.node(others)
	}
	j.close('}')
	j.w.WriteByte('\n')
	return j.w.Flush()
}

// others is a table of the functions of the report that other functions share the address of, or nil.
func (d *Doc) others() Node {
	type sharing struct {
		id     reader.FuncID
		others []string
	}
	var list []sharing
	for _, id := range slices.Sorted(maps.Keys(d.known)) {
		if others := symbolize.Others(d.Names, id); len(others) > 0 {
			list = append(list, sharing{id, others})
		}
	}
	if list == nil {
		return nil
	}
	return Table("same_address", list,
		Function("function", func(s *sharing) reader.FuncID { return s.id }),
		NamePath("others", func(s *sharing) []string { return s.others }))
}

func (j *jsonWriter) line() {
	j.w.WriteByte('\n')
	for range j.indent {
		j.w.WriteByte(' ')
	}
}

func (j *jsonWriter) open(c byte) {
	j.w.WriteByte(c)
	j.indent++
	j.first = true
}

func (j *jsonWriter) close(c byte) {
	j.indent--
	if !j.first {
		j.line()
	}
	j.w.WriteByte(c)
	j.first = false
}

// next separates elements.
func (j *jsonWriter) next() {
	if !j.first {
		j.w.WriteByte(',')
	}
	j.first = false
	j.line()
}

func (j *jsonWriter) key(key string) {
	j.next()
	j.quote(key)
	j.w.WriteString(": ")
}

func (j *jsonWriter) quote(s string) {
	if isPlain(s) { // nearly all
		j.w.WriteByte('"')
		j.w.WriteString(s)
		j.w.WriteByte('"')
		return
	}
	e := json.NewEncoder(lineFeedTrimmer{j.w})
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // fails only if the writer does, and Flush reports that
}

// isPlain reports whether s needs no escapes.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}

// lineFeedTrimmer drops the line feed at the end of an Encoder's output.
type lineFeedTrimmer struct{ w *bufio.Writer }

func (c lineFeedTrimmer) Write(p []byte) (int, error) {
	_, err := c.w.Write(p[:len(p)-1])
	return len(p), err
}

func (j *jsonWriter) strings(key string, list []string) {
	j.key(key)
	x := datum{list: []datum{}}
	for _, s := range list {
		x.list = append(x.list, quotation(s))
	}
	j.datum(x)
}

func (j *jsonWriter) datum(x datum) {
	switch {
	case x.null:
		j.w.WriteString("null")
	case x.rows != nil:
		j.table(x.rows)
	case x.list != nil:
		j.w.WriteByte('[')
		for i, e := range x.list {
			if i > 0 {
				j.w.WriteString(", ")
			}
			j.datum(e)
		}
		j.w.WriteByte(']')
	case x.quoted:
		j.quote(x.s)
	default:
		j.w.WriteString(x.s)
	}
}

func (j *jsonWriter) nodes(list []Node) {
	for _, n := range list {
		j.node(n)
	}
}

func (j *jsonWriter) node(n Node) {
	switch n := n.(type) {
	case Notes:
		j.strings("notes", n)
	case Programs:
		j.nodes(n)
	case *FactList:
		for i := range n.list {
			j.fact(&n.list[i])
		}
	case *TableNode:
		j.key(n.key)
		j.table(n)
	case *Section:
		if n.Key == "" {
			j.nodes(n.Body)
			return
		}
		j.key(n.Key)
		j.object(n.Body)
	case *List:
		j.key(n.Key)
		j.open('[')
		for i := range n.Items {
			j.next()
			j.object(n.Items[i].Body)
		}
		j.close(']')
	case *Drawing:
		if n.Data != nil {
			j.node(n.Data)
		}
	}
}

func (j *jsonWriter) object(body []Node) {
	j.open('{')
	j.nodes(body)
	j.close('}')
}

func (j *jsonWriter) fact(f *fact) {
	if !f.programs {
		return
	}
	keys := j.doc.keys(&f.column)
	for i, x := range j.doc.data(nil, &f.column, f.cell) {
		j.key(keys[i])
		j.datum(x)
	}
}

// table writes an array. Parents in a tree have arrays of their children.
func (j *jsonWriter) table(t *TableNode) {
	j.open('[')
	columns := j.columns(t)
	row := 0
	for t.has(row) {
		row = j.row(t, columns, row)
	}
	j.close(']')
}

// row writes a row and, in a tree, the rows below it. It returns the next row.
func (j *jsonWriter) row(t *TableNode, columns []jsonColumn, row int) int {
	var open []int // levels of the nodes whose objects are open
	for {
		j.next()
		j.w.WriteByte('{')
		j.cells(t, columns, row)
		row++
		if t.level == nil {
			j.w.WriteByte('}')
			return row
		}
		open = append(open, t.level(row-1))
		next := -1
		if row < t.length {
			next = t.level(row)
		}
		if next > open[len(open)-1] {
			j.w.WriteString(`, "children": `)
			j.open('[')
			continue
		}
		j.w.WriteByte('}')
		for open = open[:len(open)-1]; len(open) > 0 && open[len(open)-1] >= next; open = open[:len(open)-1] {
			j.close(']')
			j.w.WriteByte('}')
		}
		if len(open) == 0 {
			return row
		}
	}
}

// jsonColumn is a column of a table with its keys, quoted once for all rows.
type jsonColumn struct {
	index int
	keys  []string
}

func (j *jsonWriter) columns(t *TableNode) []jsonColumn {
	var list []jsonColumn
	for i := range t.columns {
		if !t.columns[i].programs || t.columns[i].flat {
			continue
		}
		c := jsonColumn{index: i}
		for _, key := range j.doc.keys(&t.columns[i]) {
			c.keys = append(c.keys, `"`+key+`": `)
		}
		list = append(list, c)
	}
	return list
}

func (j *jsonWriter) cells(t *TableNode, columns []jsonColumn, row int) {
	separator := ""
	var buffer [4]datum
	for _, c := range columns {
		of, v := &t.columns[c.index], t.cell(row, c.index)
		if n, ok := j.doc.plainNumber(of, &v); ok { // most cells of large tables
			j.w.WriteString(separator)
			separator = ", "
			j.w.WriteString(c.keys[0])
			j.w.Write(strconv.AppendUint(j.w.AvailableBuffer(), n, 10))
			continue
		}
		for k, x := range j.doc.data(buffer[:0], of, v) {
			j.w.WriteString(separator)
			separator = ", "
			j.w.WriteString(c.keys[k])
			j.datum(x)
		}
	}
}

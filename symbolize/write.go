package symbolize

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/internal/yamltext"
	"github.com/xray-tools/xray/reader"
)

// labels caches the label of the last function. Sleds of a function are consecutive.
type labels struct {
	n     Names
	known bool // the fields below are valid
	id    reader.FuncID
	sym   Symbol
	label string
}

// at returns the label of a function; "" without names.
func (l *labels) at(id reader.FuncID, location bool) string {
	if l.n == nil || l.known && id == l.id {
		return l.label
	}
	l.known, l.id = true, id
	if location {
		l.sym, _ = l.n.Func(id)
	}
	l.label = Label(l.n, id)
	return l.label
}

// warm demangles all names in parallel.
func warm(n Names) {
	if t, ok := n.(*Table); ok && t != nil {
		t.demangleAll()
	}
}

// WriteYAML writes the map as llvm-xray extract does. Without names, function names are empty.
// It writes sleds of typed events, which llvm-xray does not know, as typed-event.
func WriteYAML(w io.Writer, m *Map, n Names) error {
	warm(n)
	bw := bufio.NewWriterSize(w, 64<<10)
	if len(m.Sleds) == 0 {
		bw.WriteString("---\n[]\n...\n")
		return bw.Flush()
	}
	bw.WriteString("---\n")
	l := labels{n: n}
	last, name := "", []byte("''")
	var b []byte
	for _, s := range m.Sleds {
		if label := l.at(s.ID, false); label != last {
			last = label
			name = yamltext.AppendScalar(name[:0], strings.ToValidUTF8(label, "\uFFFD"))
			// LLVM leaves DEL as it is, but YAML does not allow that.
			if bytes.IndexByte(name, 0x7F) >= 0 {
				name = bytes.ReplaceAll(name, []byte{0x7F}, []byte(`\x7F`))
			}
		}
		b = append(b[:0], "- { id: "...)
		b = strconv.AppendInt(b, int64(s.ID), 10)
		b = append(b, ", address: 0x"...)
		b = appendHex(b, s.Address)
		b = append(b, ", function: 0x"...)
		b = appendHex(b, s.Function)
		b = append(b, ", kind: "...)
		b = append(b, s.Kind.String()...)
		b = append(b, ", always-instrument: "...)
		b = strconv.AppendBool(b, s.AlwaysInstrument)
		b = append(b, ", function-name: "...)
		b = append(b, name...)
		if s.Version != 0 {
			b = append(b, ", version: "...)
			b = strconv.AppendUint(b, uint64(s.Version), 10)
		}
		b = append(b, " }\n"...)
		bw.Write(b)
	}
	bw.WriteString("...\n")
	return bw.Flush()
}

// appendHex appends upper-case hex digits without leading zeros.
func appendHex(b []byte, v uint64) []byte {
	const digits = "0123456789ABCDEF"
	shift := 60
	for shift > 0 && v>>shift == 0 {
		shift -= 4
	}
	for ; shift >= 0; shift -= 4 {
		b = append(b, digits[v>>shift&0xF])
	}
	return b
}

// sledRecord is a sled in JSON, CSV and text. File and Line are left out if they are unknown.
type sledRecord struct {
	ID               int32  `json:"id"`
	Address          string `json:"address"`
	Function         string `json:"function"`
	Kind             string `json:"kind"`
	AlwaysInstrument bool   `json:"always_instrument"`
	Version          uint8  `json:"version"`
	Name             string `json:"name,omitempty"`
	Linkage          string `json:"linkage_name,omitempty"`
	File             string `json:"file,omitempty"`
	Line             int    `json:"line,omitempty"`
	Column           int    `json:"column,omitempty"`
}

// eachRecord calls f for all sleds in order, with names and source locations.
func eachRecord(m *Map, n Names, f func(*sledRecord) error) error {
	warm(n)
	l := labels{n: n}
	for _, s := range m.Sleds {
		r := sledRecord{
			ID:      int32(s.ID),
			Address: "0x" + strconv.FormatUint(s.Address, 16), Function: "0x" + strconv.FormatUint(s.Function, 16),
			Kind: s.Kind.String(), AlwaysInstrument: s.AlwaysInstrument, Version: s.Version,
			Name: l.at(s.ID, true),
		}
		r.Linkage, r.File, r.Line, r.Column = l.sym.Linkage, l.sym.File, l.sym.Line, l.sym.Column
		if err := f(&r); err != nil {
			return err
		}
	}
	return nil
}

// WriteJSON writes the map as a JSON array, one object per line.
func WriteJSON(w io.Writer, m *Map, n Names) error {
	bw := bufio.NewWriterSize(w, 64<<10)
	bw.WriteString("[")
	separator := "\n"
	err := eachRecord(m, n, func(r *sledRecord) error {
		bw.WriteString(separator)
		separator = ",\n"
		// By default, the encoder escapes the < and > of templates.
		var sb strings.Builder
		e := json.NewEncoder(&sb)
		e.SetEscapeHTML(false)
		if err := e.Encode(r); err != nil {
			return err
		}
		_, err := bw.WriteString(strings.TrimSuffix(sb.String(), "\n"))
		return err
	})
	if err != nil {
		return err
	}
	bw.WriteString("\n]\n")
	return bw.Flush()
}

var columns = []string{"id", "address", "function", "kind", "always_instrument", "version", "name", "linkage_name", "file", "line", "column"}

// WriteCSV writes the map as CSV with a header line.
func WriteCSV(w io.Writer, m *Map, n Names) error {
	cw := csv.NewWriter(w)
	if err := cw.Write(columns); err != nil {
		return err
	}
	err := eachRecord(m, n, func(r *sledRecord) error {
		line, column := "", ""
		if r.Line != 0 {
			line, column = strconv.Itoa(r.Line), strconv.Itoa(r.Column)
		}
		return cw.Write([]string{
			strconv.Itoa(int(r.ID)), r.Address, r.Function, r.Kind, strconv.FormatBool(r.AlwaysInstrument),
			strconv.Itoa(int(r.Version)), texttab.CSVText(r.Name), texttab.CSVText(r.Linkage), texttab.CSVText(r.File), line, column,
		})
	})
	if err != nil {
		return err
	}
	cw.Flush()
	return cw.Error()
}

// WriteText writes the map as an aligned table for people. It has a location column only if a
// location is known, with base names as in [Location]. The name is last because it is the
// widest.
func WriteText(w io.Writer, m *Map, n Names) error {
	header := []string{"id", "address", "function", "kind", "location", "name"}
	const right = 3 // number of right-aligned columns
	widths := make([]int, len(header))
	// Go through the map twice. Its text may be too large to keep.
	measure := func(cells []string) {
		for i, c := range cells {
			widths[i] = max(widths[i], texttab.Width(c))
		}
	}
	located := false
	err := eachRecord(m, n, func(r *sledRecord) error {
		measure(r.cells())
		located = located || r.File != ""
		return nil
	})
	if err != nil {
		return err
	}
	measure(header)

	bw := bufio.NewWriterSize(w, 64<<10)
	line := func(cells []string) error {
		pad := 0
		for i, c := range cells {
			if header[i] == "location" && !located || header[i] == "name" && n == nil {
				continue
			}
			gap := widths[i] - texttab.Width(c)
			if i < right {
				pad, gap = pad+gap, 0
			}
			if c != "" {
				bw.WriteString(strings.Repeat(" ", pad) + c)
				pad = 0
			}
			pad += gap + 2
		}
		return bw.WriteByte('\n')
	}
	if err := line(header); err != nil {
		return err
	}
	if err := eachRecord(m, n, func(r *sledRecord) error { return line(r.cells()) }); err != nil {
		return err
	}
	return bw.Flush()
}

// cells returns the columns of [WriteText].
func (r *sledRecord) cells() []string {
	location := ""
	if r.File != "" {
		location = shortLocation(r.File, r.Line, r.Column)
	}
	return []string{
		strconv.Itoa(int(r.ID)), r.Address, r.Function, r.Kind,
		texttab.Printable(location), texttab.Printable(r.Name),
	}
}

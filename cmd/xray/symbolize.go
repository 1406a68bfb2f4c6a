package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

func (a *app) symbolizeCommand() *cobra.Command {
	var (
		flags   session.NameFlags
		trace   string
		inlines bool
		format  = "text"
		output  string
	)
	cmd := &cobra.Command{
		Use:   "symbolize [ID | 0xADDRESS]...",
		Short: "Translate function IDs and addresses to names",
		Long: `Print the name and source location of each ID or address, one per line in input order.
Without arguments, read them from standard input, one per line.

A decimal number is a function ID, as in traces, and refers to the binary or map of -m or
to --trace. The top 8 bits of an ID are the number of the shared object. A number that
starts with 0x is a link-time address. To select a shared object, put its number before
the ID or address, as in 2:17 or 2:0x4010.`,
		Example: `  xray symbolize -m ./server 17 18 0x4a10
  xray symbolize -m ./server --inlines --format json < ids.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			queries, err := readQueries(args, a.Stdin)
			if err != nil {
				return err
			}
			s, err := flags.OpenNames(&a.Streams, cmd.Name(), trace)
			if err != nil {
				return err
			}
			defer s.Close()
			if s.Names == nil {
				return cli.Usagef("symbolize needs a map (-m) or a trace from xray's recorder (--trace)")
			}
			if err := answerAll(s, queries, flags.Search(&a.Streams).Options, inlines); err != nil {
				return err
			}
			return a.WriteText(output, func(w io.Writer) error { return writeAnswers(w, queries, format) })
		},
	}
	f := cmd.Flags()
	flags.AddFlags(f)
	f.StringVar(&trace, "trace", "", "interpret IDs as in `TRACE`")
	f.BoolVar(&inlines, "inlines", false, "also show inlined functions")
	cli.AddChoice(f, &format, "format", "f", "output `FORMAT`", "text", "json")
	cli.AddOutput(f, &output)
	cli.Spellings(f, nil)
	return cmd
}

// query is an ID or an address, with the answer.
type query struct {
	text    string
	object  int
	number  uint64
	address bool
	answer  answer
}

// answer is a line of JSON.
type answer struct {
	Input    string   `json:"input"`
	ID       *int32   `json:"id,omitempty"`
	Address  string   `json:"address,omitempty"`
	Object   string   `json:"object,omitempty"`
	Function string   `json:"function,omitempty"`
	Linkage  string   `json:"linkage_name,omitempty"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
	Column   int      `json:"column,omitempty"`
	Into     []place  `json:"inlined_into,omitempty"`
	Inlined  []inline `json:"inlined,omitempty"`
}

// place is a function that the code at an address was inlined into, with the location.
type place struct {
	Function string `json:"function"`
	Linkage  string `json:"linkage_name,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Column   int    `json:"column,omitempty"`
}

// inline is a function that was inlined into another, with the location.
type inline struct {
	Depth int `json:"depth"`
	place
}

// readQueries reads the arguments or, if there are none, the lines of standard input.
func readQueries(args []string, stdin io.Reader) ([]query, error) {
	var list []query
	add := func(text string) error {
		q, err := parseQuery(text)
		list = append(list, q)
		return err
	}
	for _, arg := range args {
		if err := add(arg); err != nil {
			return nil, err
		}
	}
	if len(args) > 0 {
		return list, nil
	}
	lines := bufio.NewScanner(stdin)
	n := 1
	for ; lines.Scan(); n++ {
		if text := strings.TrimSpace(lines.Text()); text != "" {
			if err := add(text); err != nil {
				return nil, fmt.Errorf("standard input: line %d: %w", n, err)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("standard input: line %d: %w", n, err)
	}
	return list, nil
}

func parseQuery(text string) (query, error) {
	q := query{text: text}
	rest := strings.TrimPrefix(text, "#")
	// IDs of objects from 128 up are negative as signed numbers.
	least, most := int64(math.MinInt32), int64(math.MaxUint32)
	if object, number, ok := strings.Cut(rest, ":"); ok {
		n, err := strconv.ParseUint(object, 10, 8)
		if err != nil {
			return q, cli.Usagef("%q: the number of an object must be from 0 to 255", text)
		}
		q.object, rest = int(n), number
		least, most = 0, 1<<24-1
	}
	var err error
	if digits, ok := strings.CutPrefix(rest, "0x"); ok {
		q.address = true
		q.number, err = strconv.ParseUint(digits, 16, 64)
	} else {
		var id int64
		id, err = strconv.ParseInt(rest, 10, 64)
		if err == nil && (id < least || id > most) {
			return q, cli.Usagef("%q: such an ID must be from %d to %d", text, least, most)
		}
		q.number = uint64(uint32(id))
	}
	if err != nil {
		return q, cli.Usagef("%q is neither an ID like 17 nor an address like 0x4a10", text)
	}
	return q, nil
}

// answerAll answers the queries.
func answerAll(s *session.Session, queries []query, opts symbolize.Options, inlines bool) error {
	addresses := make(map[int][]int) // queries by object
	for i := range queries {
		if q := &queries[i]; q.address {
			addresses[q.object] = append(addresses[q.object], i)
		} else {
			answerID(s, q, inlines)
		}
	}
	for _, object := range slices.Sorted(maps.Keys(addresses)) {
		list := addresses[object]
		// Look up addresses in order, so that neighbors are in the cache.
		slices.SortFunc(list, func(a, b int) int { return cmp.Compare(queries[a].number, queries[b].number) })
		var wanted []uint64
		for _, i := range list {
			wanted = append(wanted, queries[i].number)
		}
		file := s.Table(object)
		if file == nil {
			return cli.Usagef("%s: there is no file for object %d", queries[list[0]].text, object)
		}
		table, err := symbolize.LoadAddresses(file.Object().Path, opts, wanted)
		if err != nil {
			return err
		}
		for n, i := range list {
			answerAddress(&queries[i], table, reader.FuncID(n+1), inlines)
		}
		if err := table.Close(); err != nil {
			return err
		}
	}
	return nil
}

func answerID(s *session.Session, q *query, inlines bool) {
	id := reader.FuncID(int32(uint32(q.number) | uint32(q.object)<<24))
	number := int32(id)
	q.answer = answer{Input: q.text, ID: &number}
	if sym, ok := s.Names.Func(id); ok {
		q.answer.fill(sym, symbolize.Label(s.Names, id))
	}
	t, own := symbolize.TableOf(s.Names, id), id
	switch names := s.Names.(type) {
	case *symbolize.Recorded:
		own = names.Own(id)
	case *symbolize.Stored: // ids are those of the trace
	default:
		_, own = symbolize.Unpack(id)
	}
	if t == nil {
		return
	}
	q.answer.Object = t.Object().Path
	if inlines {
		for _, c := range t.Inlined(own) {
			q.answer.Inlined = append(q.answer.Inlined, inline{c.Depth, place{c.Name, c.Linkage, c.File, c.Line, c.Column}})
		}
	}
}

func answerAddress(q *query, t *symbolize.Table, id reader.FuncID, inlines bool) {
	q.answer = answer{Input: q.text, Object: t.Object().Path}
	var frames []symbolize.Symbol
	if inlines {
		frames = t.Frames(id)
	} else {
		// The function at the address, and the source line of the code.
		whole, _ := t.Func(id)
		frames = []symbolize.Symbol{whole}
	}
	q.answer.fill(frames[0], frames[0].Name)
	for _, f := range frames[1:] {
		q.answer.Into = append(q.answer.Into, place{f.Name, f.Linkage, f.File, f.Line, f.Column})
	}
}

func (a *answer) fill(sym symbolize.Symbol, label string) {
	a.Address = fmt.Sprintf("%#x", sym.Address)
	a.Function, a.Linkage = label, sym.Linkage
	a.File, a.Line, a.Column = sym.File, sym.Line, sym.Column
}

func writeAnswers(w io.Writer, queries []query, format string) error {
	b := bufio.NewWriter(w)
	if format == "json" {
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		for i := range queries {
			if err := e.Encode(&queries[i].answer); err != nil {
				return err
			}
		}
		return b.Flush()
	}
	line := func(indent int, what string, p place) {
		name, location := p.Function, ""
		if name == "" {
			name = "??"
		}
		if p.File != "" {
			location = fmt.Sprintf(" at %s:%d:%d", p.File, p.Line, p.Column)
		}
		fmt.Fprintf(b, "%*s%s%s%s\n", indent, "", what, texttab.Printable(name), texttab.Printable(location))
	}
	for i := range queries {
		a := &queries[i].answer
		line(0, "", place{Function: a.Function, File: a.File, Line: a.Line, Column: a.Column})
		for _, p := range a.Into {
			line(2, "inlined into ", p)
		}
		for _, c := range a.Inlined {
			line(2*c.Depth, "inlines ", c.place)
		}
	}
	return b.Flush()
}

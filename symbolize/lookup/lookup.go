// Package lookup answers queries for the functions of IDs and addresses, as xray symbolize asks them.
package lookup

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Error is a mistake in a query, not in the files that should answer it.
type Error struct{ text string }

// Error says which query is wrong, and why.
func (e *Error) Error() string { return e.text }

func mistake(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// Query is an ID of a function or a link-time address.
type Query struct {
	text    string
	object  int
	number  uint64
	address bool
}

// Read parses words. If there are none, it parses the lines of standard input that are not blank.
// An [*Error] is in the chain of errors about what they say.
func Read(words []string, lines io.Reader) ([]Query, error) {
	var list []Query
	for _, word := range words {
		q, err := Parse(word)
		if err != nil {
			return nil, err
		}
		list = append(list, q)
	}
	if len(words) > 0 {
		return list, nil
	}
	in := bufio.NewScanner(lines)
	n := 1
	for ; in.Scan(); n++ {
		if text := strings.TrimSpace(in.Text()); text != "" {
			q, err := Parse(text)
			if err != nil {
				return nil, fmt.Errorf("standard input: line %d: %w", n, err)
			}
			list = append(list, q)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("standard input: line %d: %w", n, err)
	}
	return list, nil
}

// Parse parses a query: an ID (17 or #17), an address (0x4a10), or one of them behind the number of a
// shared object (2:17). The error is an [*Error].
func Parse(text string) (Query, error) {
	q := Query{text: text}
	rest := strings.TrimPrefix(text, "#")
	// IDs of objects from 128 up are negative as signed numbers.
	least, most := int64(math.MinInt32), int64(math.MaxUint32)
	if object, number, ok := strings.Cut(rest, ":"); ok {
		n, err := strconv.ParseUint(object, 10, 8)
		if err != nil {
			return q, mistake("%q: the number of an object must be from 0 to 255", text)
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
			return q, mistake("%q: such an ID must be from %d to %d", text, least, most)
		}
		q.number = uint64(uint32(id))
	}
	if err != nil {
		return q, mistake("%q is neither an ID like 17 nor an address like 0x4a10", text)
	}
	return q, nil
}

// Options say where answers come from.
type Options struct {
	Names symbolize.Names // of IDs
	// Table returns the names of a shared object, or nil if there is no file for it.
	Table func(object int) *symbolize.Table
	// Load is how to read the files of objects again, for addresses.
	Load symbolize.Options
	// Inlines adds inlined functions.
	Inlines bool
}

// Answer answers queries, in their order. It reads each file once for all addresses in it. The error is an
// [*Error] if there is no file for a query.
func Answer(queries []Query, opts Options) ([]Found, error) {
	answers := make([]Found, len(queries))
	addresses := make(map[int][]int) // queries by object
	for i := range queries {
		if q := &queries[i]; q.address {
			addresses[q.object] = append(addresses[q.object], i)
		} else {
			answers[i] = ofID(q, &opts)
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
		file := opts.Table(object)
		if file == nil {
			return nil, mistake("%s: there is no file for object %d", queries[list[0]].text, object)
		}
		table, err := symbolize.LoadAddresses(file.Object().Path, opts.Load, wanted)
		if err != nil {
			return nil, err
		}
		for n, i := range list {
			answers[i] = ofAddress(&queries[i], table, reader.FuncID(n+1), opts.Inlines)
		}
		if err := table.Close(); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

func ofID(q *Query, opts *Options) Found {
	id := reader.FuncID(int32(uint32(q.number) | uint32(q.object)<<24))
	number := int32(id)
	a := Found{Input: q.text, ID: &number}
	if sym, ok := opts.Names.Func(id); ok {
		a.fill(sym, symbolize.Label(opts.Names, id))
	}
	t, own := symbolize.TableOf(opts.Names, id), id
	switch names := opts.Names.(type) {
	case *symbolize.Recorded:
		own = names.Own(id)
	case *symbolize.Stored: // ids are those of the trace
	default:
		_, own = symbolize.Unpack(id)
	}
	if t == nil {
		return a
	}
	a.Object = t.Object().Path
	if opts.Inlines {
		for _, c := range t.Inlined(own) {
			a.Inlined = append(a.Inlined, Inline{c.Depth, Place{c.Name, c.Linkage, c.File, c.Line, c.Column}})
		}
	}
	return a
}

func ofAddress(q *Query, t *symbolize.Table, id reader.FuncID, inlines bool) Found {
	a := Found{Input: q.text, Object: t.Object().Path}
	var frames []symbolize.Symbol
	if inlines {
		frames = t.Frames(id)
	} else {
		// The function at the address, and the source line of the code.
		whole, _ := t.Func(id)
		frames = []symbolize.Symbol{whole}
	}
	a.fill(frames[0], frames[0].Name)
	for _, f := range frames[1:] {
		a.Into = append(a.Into, Place{f.Name, f.Linkage, f.File, f.Line, f.Column})
	}
	return a
}

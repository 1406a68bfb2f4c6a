package sql

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/tables"
)

// openTrace returns options for a trace of testdata, and counts the passes over it.
func openTrace(t *testing.T, names, trace string) (Options, *int) {
	t.Helper()
	dir := filepath.Join("..", "..", "testdata")
	path := filepath.Join(dir, trace)
	passes := new(int)
	opts := Options{
		Source: tables.Source{Clock: reader.Clock{Frequency: 1e9}, Files: []string{trace}},
		Traces: func() []tables.Trace { return []tables.Trace{{Name: trace}} },
	}
	if names != "" {
		table, err := symbolize.Load(filepath.Join(dir, names), symbolize.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { table.Close() })
		opts.Names, opts.Functions = table, symbolize.IDs(table)
	}
	var first uint64
	opts.Start = func() (uint64, error) { return first, nil }
	opts.Pass = func(p PassOptions, sink calls.Sink) error {
		*passes++
		tr, err := reader.Open(reader.Options{}, path)
		if err != nil {
			return err
		}
		defer tr.Close()
		_, _, err = calls.Run(calls.Source(tr), calls.Options{Shards: 1, Paths: p.Paths, Filter: p.Filter}, func() one { return one{sink} })
		return err
	}
	least := &earliest{}
	if err := opts.Pass(PassOptions{}, least); err != nil {
		t.Fatal(err)
	}
	first, *passes = least.start, 0
	return opts, passes
}

type one struct{ calls.Sink }

func (one) Merge(one) {}

type earliest struct{ start uint64 }

func (e *earliest) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		if s := b.Calls[i].Start; e.start == 0 || s < e.start {
			e.start = s
		}
	}
	return nil
}

// ask returns the rows of a query, each in a line.
func ask(t *testing.T, db *DB, query string) []string {
	t.Helper()
	rows, err := db.Query(context.Background(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	var list []string
	for {
		row, err := rows.Next()
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		if row == nil {
			return list
		}
		list = append(list, fmt.Sprint(row...))
	}
}

// apart is all calls, with no conditions and no order that would reach the reader.
const apart = "(WITH a AS MATERIALIZED (SELECT * FROM calls) SELECT * FROM a)"

func openDB(t *testing.T, opts Options) *DB {
	t.Helper()
	db, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// Whatever conditions the reader takes over, the result is that of SQLite's own conditions.
func TestConditions(t *testing.T) {
	opts, _ := openTrace(t, "kvserver", "kvserver-fdr.xray")
	db := openDB(t, opts)
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(list ...string) string { return list[rnd.IntN(len(list))] }
	condition := func() string {
		switch rnd.IntN(8) {
		case 0:
			return "start " + pick("<", "<=", ">", ">=", "=") + pick(" 678478", " 2000000", " 3e6", " -5", " '2000000'", " 1e300")
		case 1:
			return "duration " + pick("<", "<=", ">", ">=", "=") + pick(" 80", " 100000", " 1e3", " 79.5", " '90'", " NULL")
		case 2:
			return "thread " + pick("=", "IN (15750,", "<>", "IN ('15752',") + " 15751" + ")"
		case 3:
			return "function " + pick("= 'kv::hash(unsigned long)'", "LIKE 'KV::h_sh%'", "REGEXP '^kv::(hash|parse)'", "GLOB 'kv::*'",
				"= 3", "IN ('kv::hash(unsigned long)', 'kv::stats()')")
		case 4:
			return "depth " + pick("<", "<=", "=", ">") + pick(" 2", " 2.5", " 0", " -1")
		case 5:
			return "self " + pick(">", ">=") + pick(" 500", " 1e4")
		case 6:
			return "caller_id " + pick("IS NULL", "= 16", "IS NOT NULL")
		}
		return "function_id " + pick("= 3", "= 3.0", "IN (3, 15, 16, 18, 19)", "= '3'", "<> 3")
	}
	fix := func(s string) string { // of thread, whose list is not always one
		if !strings.Contains(s, "(") {
			s = strings.ReplaceAll(s, ")", "")
		}
		return s
	}
	for range 120 {
		var list []string
		for range 1 + rnd.IntN(3) {
			list = append(list, fix(condition()))
		}
		const sums = "SELECT count(*), sum(duration), sum(start), sum(function_id), sum(thread) FROM "
		where := " WHERE " + strings.Join(list, " AND ")
		with, without := sums+"calls"+where, sums+apart+where
		if diff := cmp.Diff(ask(t, db, without), ask(t, db, with)); diff != "" {
			t.Errorf("%s: (-without the reader's help +with)\n%s", with, diff)
		}
	}
}

// Calls in the order of a column are those that SQLite sorts.
func TestOrder(t *testing.T) {
	opts, _ := openTrace(t, "kvserver", "kvserver-fdr.xray")
	db := openDB(t, opts)
	for _, column := range []string{
		"function", "function_id", "file", "line", "caller", "caller_id", "thread", "trace", "depth", "path", "ended",
		"thread, function", "function, file", "ended, depth, caller", "trace, process, thread, path", "file, line, function",
	} {
		sums := ", count(*), count(thread_name), sum(start), sum(duration), sum(self), sum(depth), sum(line), sum(thread), sum(path), count(caller), " +
			"max(ended), max(arguments), count(arguments), sum(cpu), sum(self_cpu), max(result) FROM calls GROUP BY "
		got := ask(t, db, "SELECT "+column+sums+column)
		want := ask(t, db, "SELECT "+column+strings.Replace(sums, "calls", apart, 1)+column)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-sorted +in order)\n%s", column, diff)
		}
		for _, plan := range ask(t, db, "EXPLAIN QUERY PLAN SELECT "+column+sums+column) {
			if strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%s is sorted: %s", column, plan)
			}
		}
		if len(got) < 2 && column != "trace" {
			t.Errorf("%s has %d groups", column, len(got))
		}
		got = ask(t, db, "SELECT "+column+" FROM calls ORDER BY "+column+" DESC")
		want = ask(t, db, "SELECT "+column+" FROM "+apart+" ORDER BY "+column+" DESC")
		if !slices.Equal(got, want) {
			t.Errorf("%s is in another order", column)
		}
	}
}

// Orders that the reader does not have stay with SQLite.
func TestOtherOrders(t *testing.T) {
	opts, _ := openTrace(t, "kvserver", "kvserver-fdr.xray")
	db := openDB(t, opts)
	for _, order := range []string{"caller NULLS LAST", "function COLLATE NOCASE DESC", "function || ''", "thread, function, file, line, caller", "duration, function"} {
		got, want := ask(t, db, "SELECT caller, function FROM calls ORDER BY "+order), ask(t, db, "SELECT caller, function FROM "+apart+" ORDER BY "+order)
		if !slices.Equal(got, want) {
			t.Errorf("%s is in another order", order)
		}
	}
}

// A join that looks calls up many times makes few passes, with the same result.
func TestLookups(t *testing.T) {
	opts, passes := openTrace(t, "kvserver", "kvserver-fdr.xray")
	db := openDB(t, opts)
	ids := "(VALUES (3), (15), (16), (18), (19), (3), (11), (9999), ('16'), (16.0), (NULL))"
	const sums = "count(*), sum(c.duration), sum(c.start)"
	want := ask(t, db, "SELECT v.column1, "+sums+" FROM "+ids+" v CROSS JOIN "+apart+" c ON c.function_id = v.column1 GROUP BY v.column1")
	*passes = 0
	got := ask(t, db, "SELECT v.column1, "+sums+" FROM "+ids+" v CROSS JOIN calls c ON c.function_id = v.column1 GROUP BY v.column1")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if *passes > 8 {
		t.Errorf("%d passes", *passes)
	}
	// The second condition changes, too, after a while.
	pairs := "(VALUES (3, 500), (15, 500), (16, 500), (18, 500), (19, 500), (3, 100), (15, 0), (16, 300), (16, 0)) v"
	const both = " v.column1, v.column2, " + sums + " FROM "
	want = ask(t, db, "SELECT"+both+pairs+" CROSS JOIN "+apart+" c ON c.function_id = v.column1 AND c.duration > v.column2 GROUP BY 1, 2")
	got = ask(t, db, "SELECT"+both+pairs+" CROSS JOIN calls c ON c.function_id = v.column1 AND c.duration > v.column2 GROUP BY 1, 2")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A pass ends when a query needs no more rows, and an error of the trace is the query's.
func TestStops(t *testing.T) {
	opts, _ := openTrace(t, "", "kvserver-fdr.xray")
	pass := opts.Pass
	var ended error
	opts.Pass = func(p PassOptions, sink calls.Sink) error {
		ended = pass(p, sink)
		return ended
	}
	db := openDB(t, opts)
	if got := ask(t, db, "SELECT function FROM calls LIMIT 1"); len(got) != 1 || ended != errStopped {
		t.Errorf("%v, %v", got, ended)
	}
	opts.Pass = func(PassOptions, calls.Sink) error { return io.ErrUnexpectedEOF }
	db = openDB(t, opts)
	for _, query := range []string{
		"SELECT count(*) FROM calls", "SELECT function, count(*) FROM calls GROUP BY 1", "SELECT * FROM functions", "SELECT path FROM calls",
		"SELECT count(*) FROM events", "SELECT path_has(1, 'x')",
	} {
		rows, err := db.Query(context.Background(), query)
		if err == nil {
			_, err = rows.Next()
			rows.Close()
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v", query, err)
		}
	}
}

func TestCancel(t *testing.T) {
	opts, _ := openTrace(t, "", "kvserver-fdr.xray")
	db := openDB(t, opts)
	ctx, cancel := context.WithCancel(context.Background())
	rows, err := db.Query(ctx, "WITH RECURSIVE n(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM n) SELECT x FROM n")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for range 10 {
		if row, err := rows.Next(); row == nil || err != nil {
			t.Fatal(row, err)
		}
	}
	cancel()
	for range 1_000_000 {
		if row, err := rows.Next(); row == nil {
			if err == nil {
				t.Error("no error")
			}
			return
		}
	}
	t.Error("the query goes on")
}

// Blocks come back as they were stored, from memory and from the file.
func TestBlockStore(t *testing.T) {
	s := &blockStore{size: storeMemory - 10_000}
	defer s.close()
	rnd := rand.New(rand.NewPCG(3, 4))
	var places []int64
	var blocks [][]byte
	for range 3000 {
		block := make([]byte, rnd.IntN(3000))
		if rnd.IntN(500) == 0 {
			block = make([]byte, 2*slabSize)
		}
		for i := range block {
			block[i] = byte(rnd.Uint32())
		}
		at, err := s.add(block)
		if err != nil {
			t.Fatal(err)
		}
		places, blocks = append(places, at), append(blocks, block)
	}
	if err := s.flush(); err != nil {
		t.Fatal(err)
	}
	if s.file == nil || len(s.slabs) == 0 {
		t.Fatal("not both in memory and in a file")
	}
	var buf []byte
	for _, i := range rnd.Perm(len(blocks)) {
		var err error
		if buf, err = s.read(places[i], buf); err != nil || string(buf) != string(blocks[i]) {
			t.Fatalf("block %d: %v", i, err)
		}
	}
}

func TestSingle(t *testing.T) {
	for query, ok := range map[string]bool{
		"SELECT 1":                      true,
		"SELECT 1;":                     true,
		"SELECT 1; -- done; SELECT 2":   true,
		"SELECT ';', \";\" /* ; */ ; ":  true,
		"SELECT 1; SELECT 2":            false,
		"SELECT 1 /* a */; /* b */ x":   false,
		"SELECT 'it''s; fine'":          true,
		"SELECT 1 -- a\n; SELECT 2":     false,
		"SELECT [a;b] FROM x":           true,
		"SELECT 'open; SELECT 2":        true, // and a syntax error of SQLite
		"SELECT 1 /* open ; SELECT 2":   true,
		"SELECT 1;\n;\n  ;":             true,
		"SELECT `a;b`;SELECT 1":         false,
		"SELECT 1;\xff":                 false,
		"-- nothing":                    true,
		"SELECT 1 -- comment with ; in": true,
	} {
		if err := single(query); (err == nil) != ok {
			t.Errorf("%q: %v", query, err)
		}
	}
}

// Any text is either a query or an error, and leaves the database usable.
func FuzzQuery(f *testing.F) {
	for _, s := range []string{"SELECT * FROM calls LIMIT 3", "SELECT quantile(1, .5)", "VALUES (1), (x'00')", "SELECT path_at(1, -1), stack(9)", "SELECT 1 WHERE 'a' REGEXP '('"} {
		f.Add(s)
	}
	trace, err := reader.Open(reader.Options{}, filepath.Join("..", "..", "testdata", "header-only-fdr.xray"))
	if err != nil {
		f.Fatal(err)
	}
	defer trace.Close()
	db, err := Open(Options{
		Pass: func(p PassOptions, sink calls.Sink) error {
			_, _, err := calls.Run(calls.Source(trace), calls.Options{Shards: 1, Paths: p.Paths, Filter: p.Filter}, func() one { return one{sink} })
			return err
		},
		Start: func() (uint64, error) { return 0, nil }, Source: tables.Source{Files: []string{"t"}},
		Traces: func() []tables.Trace { return []tables.Trace{{}} },
	})
	if err != nil {
		f.Fatal(err)
	}
	defer db.Close()
	f.Fuzz(func(t *testing.T, query string) {
		lower := strings.ToLower(query)
		if len(query) > 200 || strings.Contains(lower, "recursive") || strings.Contains(lower, "with") {
			return // may be endless
		}
		if rows, err := db.Query(context.Background(), query); err == nil {
			for range 100 {
				if row, err := rows.Next(); row == nil || err != nil {
					break
				}
			}
			rows.Close()
		}
		rows, err := db.Query(context.Background(), "SELECT count(*) FROM sqlite_schema")
		if err != nil {
			t.Fatalf("after %q: %v", query, err)
		}
		if row, err := rows.Next(); err != nil || fmt.Sprint(row...) != "0" {
			t.Fatalf("after %q: %v, %v", query, row, err)
		}
		rows.Close()
	})
}

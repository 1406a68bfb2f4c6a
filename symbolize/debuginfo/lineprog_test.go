package debuginfo

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/elftest"
)

// lineTableOf returns a line table with a program.
func lineTableOf(program []byte) *lineTable {
	return &lineTable{
		order: binary.LittleEndian, version: 4, addressSize: 8, minInst: 1, lineBase: -3, lineRange: 12, opcodeBase: 13,
		operands: []byte{0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}, program: program,
	}
}

// findIn returns the lines that a program gives to functions.
func findIn(program []byte, starts, ends []uint64) map[uint64]uint64 {
	got := make(map[uint64]uint64)
	s := seeker{wanted: wanted{starts: starts, ends: ends, first: 1}, report: func(i int, r row) { got[starts[i]] = r.line }}
	lineTableOf(program).run(&s)
	return got
}

func rowsOf(rows []row) (list []elftest.Row) {
	for _, r := range rows {
		list = append(list, elftest.Row{Address: r.address, Line: r.line})
	}
	return list
}

func TestSeeker(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []row // line 0 in the last row ends the sequence
		want map[uint64]uint64
	}{
		{"at", []row{{address: 0x10, line: 5}, {address: 0x14, line: 6}, {address: 0x20}}, map[uint64]uint64{0x10: 5}},
		{"within a row", []row{{address: 0x8, line: 5}, {address: 0x14, line: 6}, {address: 0x20}}, map[uint64]uint64{0x10: 5}},
		{"after", []row{{address: 0x10}, {address: 0x14}, {address: 0x18, line: 6}, {address: 0x20}}, map[uint64]uint64{0x10: 6}},
		{"first of several", []row{{address: 0x10}, {address: 0x10, line: 7}, {address: 0x10, line: 8}, {address: 0x10}, {address: 0x20}}, map[uint64]uint64{0x10: 7}},
		{"none within the function", []row{{address: 0x10}, {address: 0x1C, line: 9}, {address: 0x20}}, nil},
		{"end is not a row", []row{{address: 0x8, line: 9}, {address: 0x10}}, nil},
		{"next function", []row{{address: 0x10}, {address: 0x40, line: 9}, {address: 0x44, line: 3}, {address: 0x50}}, map[uint64]uint64{0x40: 9}},
		{"starts behind", []row{{address: 0x12, line: 9}, {address: 0x20}}, nil},
		{"backwards", []row{{address: 0x30, line: 9}, {address: 0x8, line: 2}, {address: 0x20}}, nil},
		{"dropped by the linker", []row{{address: 0, line: 9}, {address: 0x20, line: 4}, {address: 0x60}}, nil},
	} {
		var b elftest.LineProgram
		b.Sequence(rowsOf(c.rows)...)
		got := findIn(b.Bytes, []uint64{0x10, 0x40}, []uint64{0x1C, math.MaxUint64})
		if c.want == nil {
			c.want = map[uint64]uint64{}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", c.name, diff)
		}
	}
}

// On any sequence, the seeker finds the line that the rule defines.
func TestSeekerProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		starts := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 40), 1, 6, rapid.ID).Draw(t, "starts")
		slices.Sort(starts)
		ends := make([]uint64, len(starts))
		for i := range starts {
			ends[i] = uint64(math.MaxUint64)
			if i+1 < len(starts) {
				ends[i] = rapid.Uint64Range(starts[i]+1, starts[i+1]).Draw(t, "end")
			}
		}
		n := rapid.IntRange(2, 12).Draw(t, "rows")
		rows := make([]row, n)
		for i := range rows {
			rows[i] = row{address: rapid.Uint64Range(1, 45).Draw(t, "address"), line: rapid.Uint64Range(0, 3).Draw(t, "line")}
		}
		slices.SortStableFunc(rows, func(a, b row) int { return int(a.address) - int(b.address) })
		want := make(map[uint64]uint64)
		end := rows[n-1].address
		for i, a := range starts {
			if a < rows[0].address || a >= end {
				continue
			}
			line := uint64(0)
			for _, r := range rows[:n-1] { // the row that contains a
				if r.address < a {
					line = r.line
				}
			}
			if slices.ContainsFunc(rows[:n-1], func(r row) bool { return r.address == a }) {
				line = 0
			}
			for _, r := range rows[:n-1] { // or the next row with a line
				if line == 0 && r.address >= a && r.address < ends[i] {
					line = r.line
				}
			}
			if line != 0 {
				want[a] = line
			}
		}
		var b elftest.LineProgram
		b.Sequence(rowsOf(rows)...)
		if diff := cmp.Diff(want, findIn(b.Bytes, starts, ends)); diff != "" {
			t.Fatalf("rows %v, functions %v to %v: (-want +got)\n%s", rows, starts, ends, diff)
		}
	})
}
func BenchmarkLineTable(b *testing.B) {
	const functions = 1_000
	var program elftest.LineProgram
	want := wanted{first: 1}
	for i := range uint64(functions) {
		start := 0x1000 + 256*i
		want.starts, want.ends = append(want.starts, start), append(want.ends, start+256)
		program.Row(start, 1)
		for range 20 {
			program.Bytes = append(program.Bytes, lnsSetColumn, 7, 13+12*4+5)
		}
	}
	program.Bytes = append(program.Bytes, 0, 1, lneEndSequence)
	t := lineTableOf(program.Bytes)
	b.Run(fmt.Sprintf("functions=%d", functions), func(b *testing.B) {
		b.SetBytes(int64(len(program.Bytes)))
		b.ReportAllocs()
		for b.Loop() {
			found := 0
			s := seeker{wanted: want, report: func(int, row) { found++ }}
			t.run(&s)
			if found != functions {
				b.Fatalf("got lines for %d of %d functions", found, functions)
			}
		}
	})
}

package account_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/args/value"
)

// valuesOf has one function with a number and a string.
func valuesOf() *calls.Expressions {
	return calls.ExpressionsOf(&reader.Recording{Values: []reader.RecordedValues{{ID: 1, Entry: []value.Description{
		{Expression: "key", Kind: value.Bytes, Format: value.String},
		{Expression: "n", Kind: value.Scalar, Format: value.Int, Size: 8},
	}}}})
}

// valued is a batch of calls that take duration(i).
func valued(from, to int, n func(int) int64, key func(int) string, duration func(int) uint64) *calls.Batch {
	b := &calls.Batch{}
	for i := from; i < to; i++ {
		at := len(b.Calls)
		b.Calls = append(b.Calls, calls.Call{Start: uint64(i), Duration: duration(i), Self: duration(i), Func: 1, Args: true})
		b.Args = append(b.Args, calls.Arg{Call: at, Value: uint64(n(i))})
		b.Values = append(b.Values, calls.Value{Call: at, Value: reader.Value{Recorded: value.Recorded{Data: []byte(key(i)), Length: uint32(len(key(i)))}}})
	}
	return b
}

func ten(int) uint64 { return 10 }

func rowsOf(v *account.Values) (rows []string) {
	for _, r := range v.Report(0).Rows {
		rows = append(rows, fmt.Sprintf("%s=%s %v", r.Expression.Expression, r.Value, r.Total))
	}
	return rows
}

// Few numbers have a row each, many one for each power of two.
func TestValuesOfNumbers(t *testing.T) {
	t.Parallel()
	of := valuesOf().Only(func(x *calls.Expression) bool { return x.Expression == "n" })
	for _, test := range []struct {
		calls int
		n     func(int) int64
		want  []string
	}{
		{6, func(i int) int64 { return int64(i%3) - 1 }, []string{"-1", "0", "1"}},
		{100, func(i int) int64 { return int64(i) - 4 }, []string{"-7..-4", "-3..-2", "-1", "0", "1", "2..3", "4..7", "8..15", "16..31", "32..63", "64..127"}},
		{64, func(i int) int64 { return int64(i) << 40 }, nil},
		{65, func(i int) int64 { return math.MinInt64 + int64(i)<<58 }, nil},
	} {
		v := account.NewValues(of)
		if err := v.Calls(valued(0, test.calls, test.n, func(int) string { return "" }, ten)); err != nil {
			t.Fatal(err)
		}
		var got []string
		counted := uint64(0)
		for _, r := range v.Report(0).Rows {
			got = append(got, r.Value)
			counted += r.Total.Lo / 10
		}
		if counted != uint64(test.calls) {
			t.Errorf("%d calls have rows, want %d", counted, test.calls)
		}
		if test.want != nil && !slices.Equal(got, test.want) {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// However the calls are divided among shards, and in whatever order they come, the rows are the same, also if most
// values have none of their own.
func TestValuesMerge(t *testing.T) {
	t.Parallel()
	const n = 6000
	number := func(i int) int64 { return int64(i * 7 % 500) }
	key := func(i int) string { return fmt.Sprint(i * 31 % 4999) }
	duration := func(i int) uint64 { return uint64(i%13) + 1 }
	var first []string
	for shards := 1; shards <= 5; shards++ {
		all := account.NewValues(valuesOf())
		for s := shards - 1; s >= 0; s-- {
			v := account.NewValues(valuesOf())
			if err := v.Calls(valued(n*s/shards, n*(s+1)/shards, number, key, duration)); err != nil {
				t.Fatal(err)
			}
			if v.Memory() == 0 {
				t.Error("holds nothing")
			}
			all.Merge(v)
		}
		got := rowsOf(all)
		if first == nil {
			first = got
		}
		if diff := cmp.Diff(first, got); diff != "" {
			t.Fatalf("%d shards: (-one +these):\n%s", shards, diff)
		}
	}
	others := slices.IndexFunc(first, func(s string) bool { return strings.HasPrefix(s, "key=(other values)") })
	if keys := slices.IndexFunc(first, func(s string) bool { return strings.HasPrefix(s, "n=") }); others != 1000 || keys != 1001 {
		t.Errorf("%d rows, the others are row %d and numbers begin at %d", len(first), others, keys)
	}
}

// Groups are the rows with the most time, and one of all others.
func TestGroups(t *testing.T) {
	t.Parallel()
	key := func(i int) string { return string(rune('a' + i%5)) }
	duration := func(i int) uint64 { return uint64(10 * (i%5 + 1)) }
	of := valuesOf().Only(func(x *calls.Expression) bool { return x.Expression == "key" })
	v := account.NewValues(of)
	b := valued(0, 20, func(int) int64 { return 0 }, key, duration)
	b.Calls[19].Args, b.Calls[19].Func = false, 2
	if err := v.Calls(b); err != nil {
		t.Fatal(err)
	}
	for most, want := range map[int]string{
		9: `key = "d" key = "e" key = "c" key = "b" key = "a"`,
		2: `key = "d" key = "e" key = (other values)`,
	} {
		g := v.Groups(most)
		if got := strings.TrimSpace(strings.Join(g.Texts, " ")); got != want {
			t.Errorf("%d groups: got %s, want %s", most, got, want)
		}
		var scratch []calls.Recorded
		for i := range b.Calls {
			var group int
			group, scratch = g.Of(b, i, scratch)
			want := fmt.Sprintf("key = %q", key(i))
			switch {
			case i == 19:
				want = ""
			case most == 2 && i%5 < 3:
				want = "key = (other values)"
			}
			if g.Texts[group] != want {
				t.Errorf("call %d of %d groups: got %s, want %s", i, most, g.Texts[group], want)
			}
		}
	}
}

// Many numbers have groups of powers of two.
func TestGroupsOfNumbers(t *testing.T) {
	t.Parallel()
	of := valuesOf().Only(func(x *calls.Expression) bool { return x.Expression == "n" })
	v := account.NewValues(of)
	b := valued(0, 100, func(i int) int64 { return int64(i) }, func(int) string { return "" }, ten)
	if err := v.Calls(b); err != nil {
		t.Fatal(err)
	}
	g := v.Groups(64)
	if group, _ := g.Of(b, 37, nil); g.Texts[group] != "n = 32..63" {
		t.Errorf("got %q", g.Texts[group])
	}
	if group, _ := v.Groups(2).Of(b, 2, nil); v.Groups(2).Texts[group] != "n = (other values)" {
		t.Errorf("got group %d", group)
	}
}

// Several traces are divided in the same way: if one of them, or all of them together, have many numbers, all are
// divided by powers of two.
func TestAlign(t *testing.T) {
	t.Parallel()
	of := valuesOf().Only(func(x *calls.Expression) bool { return x.Expression == "n" })
	divide := func(from, to int) account.Division {
		v := account.NewValues(of)
		if err := v.Calls(valued(from, to, func(i int) int64 { return int64(i) }, func(int) string { return "" }, ten)); err != nil {
			t.Fatal(err)
		}
		return v.Division(of.All()[1])
	}
	for _, test := range []struct {
		list []account.Division
		want []string
	}{
		{[]account.Division{divide(0, 2), divide(1, 3)}, []string{"0 1 0", "1 1 1", "2 0 1"}},
		{[]account.Division{divide(0, 2), divide(0, 100)}, []string{"0 1 1", "1 1 1", "2..3 0 2", "4..7 0 4", "8..15 0 8", "16..31 0 16", "32..63 0 32", "64..127 0 36"}},
		{[]account.Division{divide(2, 42), divide(42, 82)}, []string{"2..3 2 0", "4..7 4 0", "8..15 8 0", "16..31 16 0", "32..63 10 22", "64..127 0 18"}},
	} {
		var got []string
		for _, a := range account.Align(test.list) {
			text := a.Value
			for _, row := range a.Rows {
				n := uint64(0)
				if row != nil {
					n = row.Durations().Count()
				}
				text += fmt.Sprint(" ", n)
			}
			got = append(got, text)
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
}

// A value that one trace has no longer, because it has too many, has no row.
func TestAlignTooMany(t *testing.T) {
	t.Parallel()
	of := valuesOf().Only(func(x *calls.Expression) bool { return x.Expression == "key" })
	divide := func(values int) account.Division {
		v := account.NewValues(of)
		if err := v.Calls(valued(0, 2*values, func(int) int64 { return 0 }, func(i int) string { return fmt.Sprint(i % values) }, ten)); err != nil {
			t.Fatal(err)
		}
		return v.Division(of.All()[0])
	}
	both := 0
	rows := account.Align([]account.Division{divide(10), divide(5000)})
	for _, a := range rows {
		if a.Rows[1] == nil {
			t.Fatalf("%s has no calls in the trace that has all values", a.Value)
		}
		if a.Rows[0] != nil {
			both++
		}
	}
	if len(rows) != 1000 || both == 10 {
		t.Errorf("got %d rows, %d of them in both", len(rows), both)
	}
}

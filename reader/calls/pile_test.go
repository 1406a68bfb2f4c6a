package calls_test

import (
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Nested calls of a function without exits are counted if one exit, or the end of their thread,
// ends them all. The result does not depend on how threads are shared among goroutines.
func TestPiles(t *testing.T) {
	tsc := uint64(0)
	enter := func(fns ...reader.FuncID) (events []reader.Event) {
		for _, fn := range fns {
			tsc++
			events = append(events, reader.Event{TSC: tsc, Func: fn, Kind: reader.Enter})
		}
		return events
	}
	exit := func(events []reader.Event, fns ...reader.FuncID) []reader.Event {
		for _, fn := range fns {
			tsc++
			events = append(events, reader.Event{TSC: tsc, Func: fn, Kind: reader.Exit})
		}
		return events
	}
	// loop calls 2, which calls 3. In this many iterations, the calls never return.
	loop := func(left int) []reader.Event {
		events := enter(1)
		for range left {
			events = exit(append(events, enter(2, 3, 2, 3)...), 3, 2)
		}
		return events
	}
	recursion := enter(1, 2, 2, 2, 2, 2, 2, 2, 2, 2)
	for _, test := range []struct {
		name    string
		threads [][]reader.Event
		// ended by one exit, and by the end of threads
		pile, open calls.Pile
	}{
		{"returned", [][]reader.Event{exit(recursion, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1)}, calls.Pile{}, calls.Pile{}},
		{"few", [][]reader.Event{exit(loop(7), 1), loop(7)}, calls.Pile{}, calls.Pile{}},
		{"many", [][]reader.Event{exit(loop(8), 1)}, calls.Pile{Calls: 8, Func: 2}, calls.Pile{}},
		{"open", [][]reader.Event{loop(9)}, calls.Pile{}, calls.Pile{Calls: 9, Func: 2}},
		{"deep", [][]reader.Event{exit(loop(1000), 1)}, calls.Pile{Calls: 1000, Func: 2}, calls.Pile{}},
		{"most", [][]reader.Event{exit(loop(20), 1), exit(loop(30), 1), loop(40), loop(10)}, calls.Pile{Calls: 30, Func: 2}, calls.Pile{Calls: 40, Func: 2}},
		{"different functions", [][]reader.Event{exit(enter(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12), 1)}, calls.Pile{}, calls.Pile{}},
	} {
		for _, shards := range []int{1, 3} {
			for _, src := range []calls.Source{split(test.threads, 100), packed{split(test.threads, 100), false}} {
				_, stats := run(t, src, calls.Options{Shards: shards})
				if stats.Pile != test.pile || stats.OpenPile != test.open {
					t.Errorf("%s: got %+v and %+v", test.name, stats.Pile, stats.OpenPile)
				}
			}
		}
	}
}

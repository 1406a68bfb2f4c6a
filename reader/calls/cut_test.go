package calls_test

import (
	"fmt"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// limited is the blocks of a recording that had a budget.
type limited struct {
	blocks
	budget reader.Budget
}

func (limited) Files() []string { return []string{"trace"} }
func (l limited) Recording(int) *reader.Recording {
	return &reader.Recording{Budget: l.budget}
}

// ended describes the calls of the only thread, by function.
func ended(t *testing.T, src calls.Source, continues func(from, to reader.FuncID) bool) (list []string) {
	t.Helper()
	w, _, err := calls.Run(src, calls.Options{Shards: 1, Code: calls.Code{Continue: continues}}, func() waits { return waits{} })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range w[0].calls {
		list = append(list, fmt.Sprintf("#%d depth %d: %d to %d, %v", c.Func, c.Depth, c.Start, c.Start+c.Duration, c.End))
	}
	slices.Sort(list)
	return list
}

// A tail call continues its call in the next one if no calls are missing of any function that it
// may lead to.
func TestTailCallsWithinABudget(t *testing.T) {
	b := &reader.Block{Events: []reader.Event{
		{TSC: 10, Func: 1, Kind: reader.Enter}, {TSC: 20, Func: 1, Kind: reader.TailExit},
		{TSC: 21, Func: 2, Kind: reader.Enter}, {TSC: 50, Func: 2, Kind: reader.Exit},
	}}
	joined := []string{"#1 depth 0: 10 to 50, continued", "#2 depth 1: 21 to 50, exited"}
	apart := []string{"#1 depth 0: 10 to 20, tail-exited", "#2 depth 0: 21 to 50, exited"}
	for _, test := range []struct {
		to     []reader.FuncID // where a tail call of function 1 may lead
		partly []reader.FuncID
		want   []string
	}{
		{[]reader.FuncID{2, 3}, nil, joined},
		{[]reader.FuncID{2, 3}, []reader.FuncID{1, 4}, joined},
		{[]reader.FuncID{2, 3}, []reader.FuncID{3}, apart},
		{[]reader.FuncID{2}, []reader.FuncID{2}, apart},
		{[]reader.FuncID{3}, nil, apart},
	} {
		src := limited{blocks: blocks{b}, budget: reader.Budget{Share: 30000, To: 1000}}
		for _, id := range test.partly {
			src.budget.Functions = append(src.budget.Functions, reader.BudgetFunction{Func: id, Counted: 1})
		}
		got := ended(t, src, func(from, to reader.FuncID) bool { return from == 1 && slices.Contains(test.to, to) })
		if diff := gocmp.Diff(test.want, got); diff != "" {
			t.Errorf("a tail call to %v, with calls of %v missing (-want +got):\n%s", test.to, test.partly, diff)
		}
	}
}

// limitedFiles are recordings that had budgets of their own.
type limitedFiles struct {
	blocks
	budgets []reader.Budget
}

func (l limitedFiles) Files() []string { return make([]string, len(l.budgets)) }
func (l limitedFiles) Recording(file int) *reader.Recording {
	return &reader.Recording{Budget: l.budgets[file]}
}

// What is missing in one file says nothing about the tail calls in another.
func TestTailCallsOfFilesWithBudgets(t *testing.T) {
	src := limitedFiles{budgets: []reader.Budget{
		{Share: 30000, To: 1000, Functions: []reader.BudgetFunction{{Func: 2, Counted: 1}}}, {Share: 30000, To: 1000},
	}}
	for file := range int32(2) {
		src.blocks = append(src.blocks, &reader.Block{Thread: reader.Thread{File: file}, Index: int(file), Events: []reader.Event{
			{TSC: 10, Func: 1, Kind: reader.Enter}, {TSC: 20, Func: 1, Kind: reader.TailExit},
			{TSC: 21, Func: 2, Kind: reader.Enter}, {TSC: 50, Func: 2, Kind: reader.Exit},
		}})
	}
	w, _, err := calls.Run(src, calls.Options{Shards: 1, Code: calls.Code{Continue: func(from, to reader.FuncID) bool { return from == 1 }}}, func() waits { return waits{} })
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range []calls.End{calls.TailExited, calls.Continued} {
		if c := w[file].calls; !slices.ContainsFunc(c, func(c calls.Call) bool { return c.Func == 1 && c.End == want }) {
			t.Errorf("file %d: %+v", file, c)
		}
	}
}

// If a call leaves through a tail call, and its function is given up before the next record, the
// call ended with the tail call. Its caller goes on.
func TestCutAfterATailExit(t *testing.T) {
	b := &reader.Block{
		Events: []reader.Event{
			{TSC: 5, Func: 9, Kind: reader.Enter}, {TSC: 10, Func: 1, Kind: reader.Enter}, {TSC: 20, Func: 1, Kind: reader.TailExit},
			{TSC: 30, Kind: reader.Custom, Side: true},
			{TSC: 40, Func: 2, Kind: reader.Enter}, {TSC: 50, Func: 2, Kind: reader.Exit}, {TSC: 60, Func: 9, Kind: reader.Exit},
		},
		Payloads: []reader.Payload{{Event: 3, Data: []byte("event")}},
	}
	src := limited{blocks: blocks{b}, budget: reader.Budget{Share: 30000, To: 1000, Changes: []reader.BudgetChange{{TSC: 25, Func: 1, To: reader.FunctionCut}}}}
	got := ended(t, src, func(from, to reader.FuncID) bool { return from == 1 && to == 2 })
	want := []string{"#1 depth 1: 10 to 20, tail-exited", "#2 depth 1: 40 to 50, exited", "#9 depth 0: 5 to 60, exited"}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

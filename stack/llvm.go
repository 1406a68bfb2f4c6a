package stack

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// LLVMView selects what llvm-xray stack shows. The zero value is its default. The fields
// are its options and have the same names.
type LLVMView struct {
	PerThreadStacks  bool
	AggregateThreads bool
	AllStacks        bool
	Flame            bool   // --stack-format=flame
	AggregationType  Metric // of flame graphs
}

// Errors with the texts of llvm-xray stack.
var (
	ErrThreadOptions = errors.New("Can't specify options for per thread reporting and reporting that aggregates threads.")
	ErrNeedsFlame    = errors.New("You must specify a non-human format when reporting with -all-stacks.")
	ErrNeedsAll      = errors.New("Can't specify a non-human format without -all-stacks.")
	ErrNoCalls       = errors.New("No instrumented calls were accounted in the input file.")
)

// Check reports options that exclude each other.
func (v LLVMView) Check() error {
	switch {
	case v.PerThreadStacks && v.AggregateThreads:
		return ErrThreadOptions
	case v.AllStacks && !v.Flame:
		return ErrNeedsFlame
	case v.Flame && !v.AllStacks:
		return ErrNeedsAll
	}
	return nil
}

// Options returns the options of the analysis that the view needs. Even for stacks of all threads
// together, callers are counted by thread.
func (v LLVMView) Options() Options { return Options{PerThread: !v.AggregateThreads || !v.Flame} }

// llvmTop is the number of stacks that llvm-xray lists.
const llvmTop = 10

// WriteLLVM writes the output of llvm-xray stack, ordered by thread and function ID. Times
// are ticks. Flame values are self values, without a semicolon before them. In llvm-xray
// they are inclusive, and flame graph tools count them again for every caller. Calls that
// are open at the end do not count. The error is that of [LLVMView.Check], [ErrNoCalls] or
// that of w.
func (r *Report) WriteLLVM(w io.Writer, names symbolize.Names, v LLVMView) error {
	if err := v.Check(); err != nil {
		return err
	}
	if len(r.order) == 0 {
		return ErrNoCalls
	}
	b := bufio.NewWriter(w)
	l := newLabels(names, texttab.Printable)
	if v.Flame {
		r.llvmFlame(b, newLabels(names, foldable), v.AggregationType)
		return b.Flush()
	}
	if v.AggregateThreads {
		all := r.llvmAcrossThreads()
		all.write(b, l)
		return b.Flush()
	}
	var all llvmTops
	for t := range r.Trees() {
		if !v.PerThreadStacks {
			all.add(t)
			continue
		}
		fmt.Fprintf(b, "Thread %d:\n", t.Thread.Thread)
		var one llvmTops
		one.add(t)
		one.write(b, l)
		b.WriteByte('\n')
	}
	if !v.PerThreadStacks {
		all.write(b, l)
	}
	return b.Flush()
}

func (r *Report) llvmFlame(b *bufio.Writer, l *labels, m Metric) {
	for t := range r.Trees() {
		line := newFoldedLine(t)
		if t.Label != "" {
			line.text = fmt.Appendf(nil, "thread_%d", t.Thread.Thread)
			line.ends[0] = len(line.text)
		}
		for i := range t.Frames {
			f := &t.Frames[i]
			value := f.Self
			if m == Count {
				value = f.Count
			}
			line.push(f.Depth, l.of(f.Func))
			b.Write(line.text)
			fmt.Fprintf(b, " %d\n", value)
		}
	}
}

// llvmAcrossThreads returns the tops of all threads together. All rows of a stack except the last
// are its callers. They count only threads that have the stack.
func (r *Report) llvmAcrossThreads() llvmTops {
	merged := &sums{}
	for _, th := range r.threads {
		merged.merge(th.sums, nil)
	}
	position := make([]int, r.paths.Len())
	t := &Tree{}
	r.frames(t, merged, position)
	ids := make([]calls.PathID, len(t.Frames))
	for id, p := range position {
		if id > 0 && p > 0 {
			ids[p-1] = calls.PathID(id)
		}
	}
	var tops llvmTops
	tops.add(t)
	for _, list := range [][]llvmStack{tops.byTime, tops.byCall} {
		for i := range list {
			r.recountCallers(&list[i], ids[list[i].frame])
		}
	}
	return tops
}

// recountCallers recounts all rows of s except the last in the threads that have s. id is the path
// of s.
func (r *Report) recountCallers(s *llvmStack, id calls.PathID) {
	for i := range s.rows[:len(s.rows)-1] {
		s.rows[i].count, s.rows[i].sum = 0, 0
	}
	for _, th := range r.threads {
		if !th.sums.known(id) {
			continue
		}
		caller := id
		for i := len(s.rows) - 2; i >= 0; i-- {
			caller = r.paths.Parent(caller)
			if p := th.sums.page(caller); p != nil {
				sum := &p[caller&pageMask]
				s.rows[i].count += sum.count - sum.leaves
				s.rows[i].sum = addSaturating(s.rows[i].sum, sum.total-sum.leafTicks)
			}
		}
	}
}

// llvmTops are the stacks with the most leaf time and with the most leaf calls, the
// heaviest first. A leaf call is a call that made none.
type llvmTops struct {
	unique         int
	byTime, byCall []llvmStack
}

// llvmStack is a path, outermost function first.
type llvmStack struct {
	frame               int // position in Tree.Frames
	leafCount, leafTime uint64
	rows                []llvmRow
}

type llvmRow struct {
	fn         reader.FuncID
	count, sum uint64
}

func (l *llvmTops) add(t *Tree) {
	for i := range t.Frames {
		f := &t.Frames[i]
		if f.Leaves == 0 {
			continue
		}
		l.unique++
		l.byTime = keepTop(l.byTime, t, i, func(s *llvmStack) uint64 { return s.leafTime })
		l.byCall = keepTop(l.byCall, t, i, func(s *llvmStack) uint64 { return s.leafCount })
	}
}

// keepTop inserts frame i into a list in descending order of by, if it belongs there. As in
// llvm-xray, it comes before equal ones.
func keepTop(list []llvmStack, t *Tree, i int, by func(*llvmStack) uint64) []llvmStack {
	s := llvmStack{frame: i, leafCount: t.Frames[i].Leaves, leafTime: t.Frames[i].LeafTotal}
	if len(list) == llvmTop {
		if by(&list[llvmTop-1]) > by(&s) {
			return list
		}
		list = list[:llvmTop-1]
	}
	for at := i; at >= 0; at = t.Frames[at].Parent {
		f := &t.Frames[at]
		row := llvmRow{f.Func, f.Count - f.Leaves, f.Total - f.LeafTotal}
		if at == i {
			row.count, row.sum = f.Leaves, f.LeafTotal
		}
		s.rows = append(s.rows, row)
	}
	slices.Reverse(s.rows)
	at, _ := slices.BinarySearchFunc(list, by(&s), func(x llvmStack, v uint64) int { return cmp.Compare(v, by(&x)) })
	return slices.Insert(list, at, s)
}

func (l *llvmTops) write(b *bufio.Writer, names *labels) {
	fmt.Fprintf(b, "\nUnique Stacks: %d\nTop %d Stacks by leaf sum:\n\n", l.unique, llvmTop)
	for i := range l.byTime {
		fmt.Fprintf(b, "Sum: %d\n", l.byTime[i].leafTime)
		l.byTime[i].write(b, names)
	}
	fmt.Fprintf(b, "\nTop %d Stacks by leaf count:\n\n", llvmTop)
	for i := range l.byCall {
		fmt.Fprintf(b, "Count: %d\n", l.byCall[i].leafCount)
		l.byCall[i].write(b, names)
	}
	b.WriteByte('\n')
}

func (s *llvmStack) write(b *bufio.Writer, names *labels) {
	fmt.Fprintf(b, "%-5s %-60s %12s %16s\n", "lvl", "function", "count", "sum")
	for depth, row := range s.rows {
		name := names.of(row.fn)
		if len(name) > 60 {
			name = name[:57] + "..."
		}
		fmt.Fprintf(b, "#%-4d %-60s %12d %16d\n", depth, name, row.count, row.sum)
	}
	b.WriteByte('\n')
}

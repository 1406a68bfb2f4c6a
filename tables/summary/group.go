package summary

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// Key identifies the program, build, host and labels of a group. Groups with equal keys can be
// added up.
type Key struct {
	Program string `json:"program"`  // base name of the program
	BuildID string `json:"build_id"` // of the program; "" if unknown
	Host    string `json:"host"`     // "" if unknown
	// Labels are a JSON object of strings, with its keys in order.
	Labels string `json:"labels"`
	// Unit is the unit of times: "ns", or "ticks" if the clock frequency is unknown.
	Unit string `json:"unit"`
}

// Compare orders keys as files have them.
func (k *Key) Compare(o *Key) int {
	return cmp.Or(
		cmp.Compare(k.Program, o.Program), cmp.Compare(k.BuildID, o.BuildID), cmp.Compare(k.Host, o.Host),
		cmp.Compare(k.Labels, o.Labels), cmp.Compare(k.Unit, o.Unit))
}

// Function is the name and place of a function, as in rows.
type Function struct {
	Name   string // as reports show it
	Symbol string // as the linker knows it; "" if unknown
	File   string // full path of the source file; "" if unknown
	Line   int32  // 1-based; 0 if unknown
	Object string // base name of the program or shared object; "" if unknown
}

func (f *Function) compare(o *Function) int {
	return cmp.Or(
		cmp.Compare(f.Name, o.Name), cmp.Compare(f.Symbol, o.Symbol), cmp.Compare(f.File, o.File),
		cmp.Compare(f.Line, o.Line), cmp.Compare(f.Object, o.Object))
}

const (
	// foldedName is the function of paths that stand for all calls below their parents that
	// have no path of their own.
	foldedName = "(folded)"
	// foldsName is the outermost function of the paths of folded calls: below it is the
	// caller, and below that the function.
	foldsName = "(folded by caller)"
	// foldsDepth is the depth of folded calls.
	foldsDepth = 2
)

// Sums are the values of a path. Times are in the unit of the key, and saturate.
type Sums struct {
	commonSums
	// Open calls had not ended.
	Open, OpenTime, OpenSelf uint64
	// Nested is the part of Time and OpenTime in calls made while another call of the
	// function was open.
	Nested uint64
	// Of Calls: how they ended.
	Inferred, Left, TailExited, Continued uint64
	OnCPU, Blocked, Queued                uint64
	// Untimed calls were only counted. Pruned calls were dropped by the recorder, which summed up
	// their durations.
	Untimed, Pruned, PrunedTime uint64
	// Folded is the number of calls below a path of foldedName, and FoldedSelf their self
	// time. The rows below foldsName have the calls themselves.
	Folded, FoldedSelf uint64
}

// commonSums are the values that nearly every row has.
type commonSums struct {
	Calls, Time, Self uint64 // calls that ended
	Min, Max          uint64 // of their durations; meaningless while Calls is 0, unknown if Min > Max
	// OffKnown says that OnCPU, Blocked and Queued are known for at least some calls. They are
	// parts of Self and OpenSelf.
	OffKnown bool
}

func (s *Sums) add(o *Sums) {
	s.commonSums.add(&o.commonSums)
	to, from := s.counters(), o.counters()
	for i := addedCalls; i < len(to); i++ {
		*to[i] = addSaturating(*to[i], *from[i])
	}
}

// addedCalls is the number of counters in commonSums, which come first.
const addedCalls = 3

func (s *commonSums) add(o *commonSums) {
	if o.Calls > 0 {
		if s.Calls == 0 {
			s.Min, s.Max = o.Min, o.Max
		}
		s.Min, s.Max = min(s.Min, o.Min), max(s.Max, o.Max)
	}
	s.OffKnown = s.OffKnown || o.OffKnown
	s.Calls = addSaturating(s.Calls, o.Calls)
	s.Time = addSaturating(s.Time, o.Time)
	s.Self = addSaturating(s.Self, o.Self)
}

// counters are the fields that are added up, in the order of the columns.
func (s *Sums) counters() [19]*uint64 {
	return [...]*uint64{
		&s.Calls, &s.Time, &s.Self, &s.Open, &s.OpenTime, &s.OpenSelf, &s.Nested,
		&s.Inferred, &s.Left, &s.TailExited, &s.Continued, &s.OnCPU, &s.Blocked, &s.Queued,
		&s.Untimed, &s.Pruned, &s.PrunedTime, &s.Folded, &s.FoldedSelf,
	}
}

// maxValue is the largest value of a column: SQL has no unsigned integers.
const maxValue = math.MaxInt64

func addSaturating(a, b uint64) uint64 {
	if s := a + b; s >= a && s <= maxValue {
		return s
	}
	return maxValue
}

// Group is the calls of one key by call path. It must not be used concurrently.
type Group struct {
	Key Key
	// Folded says that Merge folded paths. It is not written to files.
	Folded bool
	// Callerless says that there are too many pairs of caller and function of folded calls,
	// so that these count by function alone. It is not written to files.
	Callerless bool
	tree
	sums     []Sums     // by path
	bins     histograms // by path: durations and self times
	coarse   histograms // by path: Counts.Coarse, only with the first counter; usually empty
	arranged int        // size of bins at the last call of arrange
	adder    *rowAdder  // nil until rows of a file are added
}

// NewGroup returns an empty group.
func NewGroup(key Key) *Group {
	g := &Group{Key: key, tree: newTree()}
	g.grow()
	return g
}

// Len is the number of paths.
func (g *Group) Len() int { return g.paths.Len() - 1 }

// child returns the path of a function below a parent.
func (g *Group) child(parent, sibling calls.PathID, f reader.FuncID) calls.PathID {
	if parent != 0 && g.paths.Func(parent) == reader.Folded {
		return parent
	}
	id := g.paths.ChildAfter(parent, sibling, f)
	g.grow()
	return id
}

// grow makes room for the values of all paths.
func (g *Group) grow() {
	for len(g.sums) < g.paths.Len() {
		g.sums = append(g.sums, Sums{})
	}
	g.bins.grow(len(g.sums))
	g.coarse.grow(len(g.sums))
}

// foldsPath returns the path of folded calls of a function by its caller.
func (g *Group) foldsPath(caller, f Function) calls.PathID {
	root := g.child(0, 0, g.function(Function{Name: foldsName}))
	return g.child(g.child(root, 0, g.function(caller)), 0, g.function(f))
}

// Add adds the rows of another group with the same key.
func (g *Group) Add(o *Group) {
	ids := make([]calls.PathID, o.paths.Len())
	for path := calls.PathID(1); int(path) < len(ids); path++ {
		fn := o.paths.Func(path)
		if fn != reader.Folded {
			fn = g.function(o.functions[fn])
		}
		ids[path] = g.child(ids[o.paths.Parent(path)], 0, fn)
		g.sums[ids[path]].add(&o.sums[path])
		g.bins.addAll(int(ids[path]), &o.bins, int(path))
		g.coarse.addAll(int(ids[path]), &o.coarse, int(path))
	}
}

// dropCallers counts folded calls by function alone if they have more pairs of caller and
// function than a limit, or if always is set. It returns the group to use.
func (g *Group) dropCallers(most int, always bool) *Group {
	if !always && g.Len()-g.ownPaths() <= most {
		return g
	}
	to := NewGroup(g.Key)
	to.Folded, to.Callerless, to.adder = g.Folded, true, nil
	below, functions := g.belowFolds(), newMapping(&g.tree, &to.tree)
	ids := make([]calls.PathID, len(below))
	for path := calls.PathID(1); int(path) < len(ids); path++ {
		parent := g.paths.Parent(path)
		switch {
		case !below[path]:
			ids[path] = to.child(ids[parent], 0, functions.function(path))
		case parent == 0 || g.paths.Parent(parent) == 0:
			continue // foldsName, or a caller
		default:
			ids[path] = to.foldsPath(Function{Name: foldedName}, g.name(path))
		}
		to.addPath(ids[path], &g.sums[path], g, path)
	}
	return to
}

// arrange numbers the paths, and lays out their bins, in the order of walk. Files have their rows
// in this order, so adding them accesses memory sequentially.
func (g *Group) arrange() {
	g.settle()
	to := NewGroup(g.Key)
	to.sums = slices.Grow(to.sums, len(g.sums))
	ids := make([]calls.PathID, g.paths.Len())
	last := make([]calls.PathID, g.paths.Len()) // most recent child, by parent
	err := g.walk(func(path calls.PathID, _ int) error {
		parent := g.paths.Parent(path)
		id := to.child(ids[parent], last[parent], g.paths.Func(path))
		ids[path], last[parent] = id, id
		to.sums[id] = g.sums[path]
		to.bins.addAll(int(id), &g.bins, int(path))
		to.coarse.addAll(int(id), &g.coarse, int(path))
		return nil
	})
	if err != nil {
		panic(err) // the function above returns none
	}
	g.paths, g.sums, g.bins, g.coarse = to.paths, to.sums, to.bins, to.coarse
	g.arranged = g.bins.size()
}

// disorder is the growth of the number of bins since the last arrange, as a fraction 1/disorder,
// from which arranging again pays.
const disorder = 4

// mayArrange arranges the paths if much has been added since the last time.
func (g *Group) mayArrange() {
	if n := g.bins.size(); n > g.arranged+g.arranged/disorder+1<<12 {
		g.arrange()
	}
}

// clean makes a text a valid name in a path, in which newlines separate names.
func clean(text string) string {
	if !strings.ContainsFunc(text, isControl) && utf8.ValidString(text) {
		return text
	}
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

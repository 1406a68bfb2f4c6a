package locks

import (
	"bufio"
	"fmt"
	"io"
	"math/big"
	"strconv"

	"github.com/xray-tools/xray/internal/label"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// View says how a report is written.
type View struct {
	Threads  label.Threads
	Markdown bool
	// Top is how many locks are shown, and Paths how many call paths of each; all
	// when 0.
	Top, Paths int
}

// pathFunctions is how many functions of a path text shows.
const pathFunctions = 4

// writer writes a report as text or Markdown.
type writer struct {
	*Report
	*bufio.Writer
	names symbolize.Names
	view  View
}

// WriteText writes tables, as text or Markdown. It returns the error of w.
func (r *Report) WriteText(out io.Writer, names symbolize.Names, v View) error {
	w := &writer{r, bufio.NewWriter(out), names, v}
	w.head()
	shown := w.shown()
	if len(shown) > 0 {
		w.overview(shown)
	}
	for i := range shown {
		w.lock(i, &shown[i])
	}
	w.cyclesAndOrder()
	w.stuck()
	w.notes()
	return w.Flush()
}

// summary is the report in a line.
func (r *Report) summary() string {
	var taken, contended uint64
	var waiting quantile.Sum
	byAddress := false
	for i := range r.Locks {
		l := &r.Locks[i]
		taken += l.Waits.Count + l.Tries
		contended += l.Contended
		waiting.AddSum(l.Waits.Sum)
		byAddress = byAddress || l.Logged
	}
	text := label.Count(uint64(len(r.Locks)), "lock", "locks")
	if byAddress {
		text += ", told apart by address"
	}
	return fmt.Sprintf("%s; taken %s, %s of them contended; %s of waiting", text, label.Count(taken, "time", "times"),
		label.Grouped(contended), r.sum(waiting))
}

func (w *writer) head() {
	if w.NoFunctions {
		w.WriteString("no lock function was called, as far as names tell; --lock REGEXP says which they are\n")
		return
	}
	w.WriteString(w.summary() + "\n")
}

// shown are the locks that are shown.
func (w *writer) shown() []LockReport {
	if w.view.Top > 0 {
		return w.Locks[:min(len(w.Locks), w.view.Top)]
	}
	return w.Locks
}

// sum formats a sum of times.
func (r *Report) sum(s quantile.Sum) string {
	if s.Hi > 0 {
		return r.Clock.Format(1<<64-1) + " and more"
	}
	return r.Clock.Format(s.Lo)
}

// name is how a lock is called.
func (l *LockReport) name(names symbolize.Names) string {
	if l.Logged {
		return "0x" + strconv.FormatUint(l.Address, 16)
	}
	return "any of " + label.Func(names, l.Func)
}

func (w *writer) lockName(i int) string { return w.Locks[i].name(w.names) }

func (w *writer) table(t *texttab.Table) {
	w.WriteByte('\n')
	if w.view.Markdown {
		t.WriteMarkdown(w.Writer)
	} else {
		t.WriteText(w.Writer)
	}
}

// title begins a section.
func (w *writer) title(format string, args ...any) {
	w.WriteByte('\n')
	if w.view.Markdown {
		w.WriteString("## ")
	}
	fmt.Fprintf(w, format+"\n", args...)
}

func columns(titles ...string) *texttab.Table {
	t := &texttab.Table{}
	for _, title := range titles {
		// Words, which come last or are marked, are to the left.
		if title[0] == '<' {
			t.Columns = append(t.Columns, texttab.Column{Title: title[1:]})
		} else {
			t.Columns = append(t.Columns, texttab.Column{Title: title, Right: true})
		}
	}
	return t
}

func (w *writer) overview(list []LockReport) {
	t := columns("<lock", "taken", "contended", "waiting", "p50", "p99", "max", "held", "p50", "p99", "max", "convoys", "together",
		"<lock function")
	for i := range list {
		l := &list[i]
		name := l.name(w.names)
		if !l.Logged {
			name = "any"
		}
		cells := []string{name, label.Grouped(l.Waits.Count + l.Tries), label.Grouped(l.Contended)}
		cells = append(append(cells, w.times(&l.Waits)...), w.times(&l.Holds)...)
		convoys := "-"
		if l.Queued.Count > 0 {
			convoys = w.Clock.Format(l.Queued.Ticks)
		}
		t.Add(append(cells, label.Grouped(l.Queued.Count), convoys, label.Func(w.names, l.Func))...)
	}
	w.table(t)
}

// times are the cells of a table for durations.
func (w *writer) times(t *Times) []string {
	if t.Count == 0 {
		return []string{"-", "-", "-", "-"}
	}
	about := ""
	if t.Approximate {
		about = "~"
	}
	return []string{w.sum(t.Sum), about + w.Clock.Format(t.P50), about + w.Clock.Format(t.P99), w.Clock.Format(t.Max)}
}

// lock writes what is known of a lock beyond its row.
func (w *writer) lock(i int, l *LockReport) {
	w.title("%d. %s", i+1, l.name(w.names))
	w.paths("waiting", "waits", l.Waits.Sum, l.WaitPaths, false)
	w.paths("held", "holds", l.Holds.Sum, l.HoldPaths, true)
	if l.Holds.Count > 0 {
		fmt.Fprintf(w, "\nlongest hold: %s at %s on thread %s\n  %s\n", w.Clock.Format(l.Longest.Ticks), w.at(l.Longest.Start),
			w.view.Threads.Of(l.Longest.Thread), label.Path(w.names, l.Longest.Path, 0))
	}
	w.blame(l)
	w.convoys(l)
}

func (w *writer) at(tsc uint64) string { return w.Clock.Format(tsc - min(tsc, w.First)) }

// path is a cell with the last functions of a path.
func (w *writer) path(p []reader.FuncID) string { return label.Path(w.names, p, pathFunctions) }

func (w *writer) some(n int) int {
	if w.view.Paths > 0 {
		return min(n, w.view.Paths)
	}
	return n
}

func (w *writer) paths(what, count string, all quantile.Sum, list []PathReport, selves bool) {
	if len(list) == 0 {
		return
	}
	titles := []string{what, "share", count, "longest", "<by"}
	if selves {
		titles = append(titles, "<spent in")
	}
	t := columns(titles...)
	for _, p := range list[:w.some(len(list))] {
		cells := []string{w.Clock.Format(p.Ticks), label.Percent(float64(p.Ticks), all.Float64()), label.Grouped(p.Count), w.Clock.Format(p.Longest),
			w.path(p.Path)}
		if selves {
			cells = append(cells, w.spent(&p))
		}
		t.Add(cells...)
	}
	if n := len(list) - w.some(len(list)); n > 0 {
		cells := make([]string, len(t.Columns))
		cells[4] = fmt.Sprintf("(and %s)", label.Count(uint64(n), "path", "paths"))
		t.Add(cells...)
	}
	w.table(t)
}

// spent says where most of a hold went.
func (w *writer) spent(p *PathReport) string {
	own := p.Ticks
	for _, s := range p.Self {
		own -= min(own, s.Ticks)
	}
	share := func(ticks uint64) string { return label.Percent(float64(ticks), float64(p.Ticks)) }
	if len(p.Self) > 0 && p.Self[0].Ticks > own {
		return label.Func(w.names, p.Self[0].Func) + " " + share(p.Self[0].Ticks)
	}
	return "itself " + share(own)
}

func (w *writer) blame(l *LockReport) {
	if len(l.Blame) == 0 {
		return
	}
	t := columns("waited", "share", "<who waited", "<while held by")
	add := func(ticks quantile.Sum, waiter, holder string) {
		t.Add(w.sum(ticks), label.Percent(ticks.Float64(), l.Waits.Sum.Float64()), waiter, holder)
	}
	for _, b := range l.Blame[:w.some(len(l.Blame))] {
		add(quantile.NewSum(b.Ticks), w.path(b.Waiter), w.path(b.Holder))
	}
	if n := len(l.Blame) - w.some(len(l.Blame)); n > 0 {
		t.Add("", "", fmt.Sprintf("(and %s)", label.Count(uint64(n), "pair", "pairs")), "")
	}
	add(l.Free(), "", "nobody that was seen: threads are woken late, or holds are not recorded")
	w.table(t)
}

func (w *writer) convoys(l *LockReport) {
	if len(l.Convoys) == 0 {
		return
	}
	t := columns("convoy at", "for", "waits", "at a time", "<first to wait", "<held by")
	for _, c := range l.Convoys {
		held := "(not seen)"
		if c.Held {
			held = w.path(c.Path) + " on " + w.view.Threads.Of(c.Holder)
		}
		t.Add(w.at(c.Start), w.Clock.Format(c.Ticks), label.Grouped(uint64(c.Waits)), label.Grouped(uint64(c.Most)), w.view.Threads.Of(c.First), held)
	}
	w.table(t)
}

func (w *writer) cyclesAndOrder() {
	for i, c := range w.Cycles {
		if i == 0 {
			w.title("taken in an order that can be a deadlock")
		}
		w.WriteByte('\n')
		for _, e := range c.Edges {
			fmt.Fprintf(w, "- %s, then %s: %s; first at %s on thread %s\n  %s, then %s\n", w.lockName(e.Held), w.lockName(e.Taken),
				label.Count(e.Count, "time", "times"), w.at(e.Start), w.view.Threads.Of(e.Thread), w.path(e.HeldPath), w.path(e.TakenPath))
		}
	}
	if len(w.Edges) == 0 {
		return
	}
	w.title("taken while another was held")
	t := columns("times", "<held", "<taken", "first at", "<thread", "<by")
	for _, e := range w.Edges[:w.some(len(w.Edges))] {
		t.Add(label.Grouped(e.Count), w.lockName(e.Held), w.lockName(e.Taken), w.at(e.Start), w.view.Threads.Of(e.Thread), w.path(e.TakenPath))
	}
	w.table(t)
}

func (w *writer) stuck() {
	if len(w.Stuck) == 0 {
		return
	}
	w.title("still waiting when the trace ends")
	t := columns("since", "<thread", "<lock", "<by", "<held by")
	for _, o := range w.Stuck {
		held := "(not seen)"
		if o.Held {
			held = w.path(o.HolderPath) + " on " + w.view.Threads.Of(o.Holder)
		}
		t.Add(w.at(o.Start), w.view.Threads.Of(o.Thread), w.lockName(o.Lock), w.path(o.Path), held)
	}
	w.table(t)
}

// notes are what the reader must know to trust the report.
func (w *writer) notes() {
	var list []string
	add := func(n uint64, one, many, what string) {
		if n > 0 {
			list = append(list, label.Count(n, one, many)+" "+what)
		}
	}
	assumed := uint64(0)
	for i := range w.Locks {
		if !w.Locks[i].Logged {
			assumed++
		}
	}
	add(assumed, "lock function", "lock functions", "logged no address: its locks are taken for one; xray_log_args(1) tells them apart")
	add(w.Gaps, "hold", "holds", "ended unseen: counted up to when the lock was taken again, or not at all")
	add(w.Handed, "lock", "locks", "given back by another thread than had taken them")
	add(w.Orphans, "unlock", "unlocks", "of locks that nobody was seen to hold")
	if w.Dropped {
		list = append(list, "there were more locks than are kept apart: those beyond are put together by lock function")
	}
	for i, note := range list {
		if i == 0 {
			w.WriteByte('\n')
		}
		if w.view.Markdown {
			w.WriteString("- ")
		}
		w.WriteString(note + "\n")
	}
}

// WriteCSV writes a row for each lock. It returns the error of w.
func (r *Report) WriteCSV(w io.Writer, names symbolize.Names) error {
	unit := "_" + r.Clock.Unit()
	t := columns("address", "function", "taken", "contended", "waiting"+unit, "wait_p50"+unit, "wait_p99"+unit, "wait_max"+unit,
		"holds", "held"+unit, "hold_p50"+unit, "hold_p99"+unit, "hold_max"+unit, "convoys", "convoy"+unit, "approximate")
	number := func(v uint64) string { return strconv.FormatUint(v, 10) }
	nanos := func(v uint64) string { return number(r.Clock.Nanos(v)) }
	for i := range r.Locks {
		l := &r.Locks[i]
		address := ""
		if l.Logged {
			address = l.name(names)
		}
		t.Add(address, symbolize.Label(names, l.Func), number(l.Waits.Count+l.Tries), number(l.Contended), r.nanos(l.Waits.Sum).String(),
			nanos(l.Waits.P50), nanos(l.Waits.P99), nanos(l.Waits.Max), number(l.Holds.Count), r.nanos(l.Holds.Sum).String(),
			nanos(l.Holds.P50), nanos(l.Holds.P99), nanos(l.Holds.Max), number(l.Queued.Count), nanos(l.Queued.Ticks),
			strconv.FormatBool(l.Waits.Approximate || l.Holds.Approximate))
	}
	return t.WriteCSV(w)
}

// nanos converts a sum to the unit of the clock.
func (r *Report) nanos(s quantile.Sum) *big.Int {
	if s.Hi == 0 {
		return new(big.Int).SetUint64(r.Clock.Nanos(s.Lo))
	}
	v := s.Big()
	if !r.Clock.Known() {
		return v
	}
	f := new(big.Int).SetUint64(r.Clock.Frequency)
	v.Mul(v, big.NewInt(1_000_000_000)).Add(v, new(big.Int).Rsh(f, 1))
	return v.Quo(v, f)
}

package locks

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View selects what people see of a report.
type View struct {
	Threads label.Threads
	// Top is the number of locks shown, and Paths the number of call paths of each. 0 means
	// all.
	Top, Paths int
	Locks      label.Locks
}

// describer describes a report.
type describer struct {
	*Report
	names   symbolize.Names
	view    View
	several bool // the locks are of several processes
}

// Body describes the report. Names are for words in cells and sentences.
func (r *Report) Body(names symbolize.Names, v View) []report.Node {
	d := &describer{r, names, v, slices.ContainsFunc(r.Locks, func(l LockReport) bool { return l.Process != r.Locks[0].Process })}
	body := []report.Node{
		report.Paragraph(d.head()),
		report.Facts(r,
			report.Count("lock_count", func(r *Report) uint64 { return uint64(len(r.Locks)) }),
			report.Flag("too_many_locks", func(r *Report) bool { return r.Dropped }),
			report.Count("unseen_ends", func(r *Report) uint64 { return r.Gaps }),
			report.Count("unmatched_unlocks", func(r *Report) uint64 { return r.Orphans }),
			report.Count("handed_over", func(r *Report) uint64 { return r.Handed }),
			report.Count("woken_count", func(r *Report) uint64 { return r.Woken.Count }).When(r.Wakers),
			report.Time("woken", func(r *Report) uint64 { return r.Woken.Ticks }).When(r.Wakers),
		).Hidden(),
		d.locks(),
	}
	shown := r.Locks
	if v.Top > 0 {
		shown = shown[:min(len(shown), v.Top)]
	}
	for i := range shown {
		body = append(body, report.People{&report.Section{Title: fmt.Sprintf("%d. %s", i+1, d.name(&shown[i])), Body: d.details(&shown[i])}})
	}
	body = append(body, d.cycles()...)
	return append(body, d.edges("order", r.Edges).Titled("Locks taken while holding another").Top(v.Paths), d.stuck(), report.Notes(d.notes()))
}

// head returns the report's summary.
func (d *describer) head() string {
	if d.NoFunctions {
		return "xray recognized no lock function among the called functions. Name lock functions with --lock REGEXP."
	}
	var taken, contended uint64
	var waiting quantile.Sum
	byAddress := false
	for i := range d.Locks {
		l := &d.Locks[i]
		taken += l.taken()
		contended += l.Contended
		waiting.AddSum(l.Waits.Sum)
		byAddress = byAddress || l.Logged
	}
	text := label.Count(uint64(len(d.Locks)), "lock", "locks")
	if byAddress {
		text += ", identified by address,"
	}
	return fmt.Sprintf("%s taken %s. %s contended. Threads waited %s in total.", text, label.Count(taken, "time", "times"),
		label.Count(contended, "wait was", "waits were"), report.Duration(d.Clock, waiting))
}

func (l *LockReport) taken() uint64 { return l.Waits.Count + l.Tries }

func (l *LockReport) address() string { return "0x" + strconv.FormatUint(l.Address, 16) }

// name returns the name of a lock.
func (d *describer) name(l *LockReport) string {
	name := "any of " + label.Func(d.names, l.Func)
	if l.Logged {
		name = d.addressed(l)
	}
	if d.several {
		name += fmt.Sprintf(" in process %d", l.Process.Process)
	}
	return name
}

// addressed returns the name of a lock that is identified by its address.
func (d *describer) addressed(l *LockReport) string {
	return d.view.Locks.Name(d.names, l.Process.File, l.taker(), l.Address)
}

// taker returns the function that took the lock first, or 0.
func (l *LockReport) taker() reader.FuncID {
	if len(l.First) == 0 {
		return 0
	}
	return l.First[len(l.First)-1]
}

// variable returns the name of the variable that is a lock, or "".
func (d *describer) variable(l *LockReport) string {
	if !l.Logged {
		return ""
	}
	return d.view.Locks.VariableAt(l.Process.File, l.Address)
}

// member returns the class and the member that are a lock, or "".
func (d *describer) member(l *LockReport) string {
	if !l.Logged || d.variable(l) != "" {
		return ""
	}
	return d.view.Locks.MemberOf(l.taker())
}

// numbered is a lock and its position, from 1.
type numbered struct {
	*LockReport
	number uint64
}

func (d *describer) locks() report.Node {
	list := make([]numbered, len(d.Locks))
	for i := range list {
		list[i] = numbered{&d.Locks[i], uint64(i + 1)}
	}
	columns := []report.Column[numbered]{
		report.String("lock", func(l *numbered) string {
			if l.Logged {
				return d.addressed(l.LockReport)
			}
			return "any"
		}).ForPeople(),
		report.Count("lock", func(l *numbered) uint64 { return l.number }).ForPrograms(),
		report.String("address", func(l *numbered) string { return l.address() }).Missing(func(l *numbered) bool { return !l.Logged }).ForPrograms(),
		report.Count("process", func(l *numbered) uint64 { return uint64(l.Process.Process) }).When(d.several),
		report.String("variable", func(l *numbered) string { return d.variable(l.LockReport) }).ForPrograms(),
		report.String("member", func(l *numbered) string { return d.member(l.LockReport) }).ForPrograms(),
		report.Count("taken", func(l *numbered) uint64 { return l.taken() }),
		report.Count("tried", func(l *numbered) uint64 { return l.Tries }).ForPrograms(),
		report.Count("contended", func(l *numbered) uint64 { return l.Contended }),
	}
	columns = append(columns, timeColumns("waiting", "wait", func(l *numbered) *Times { return &l.Waits })...)
	columns = append(columns, report.Count("holds", func(l *numbered) uint64 { return l.Holds.Count }).ForPrograms())
	columns = append(columns, timeColumns("held", "hold", func(l *numbered) *Times { return &l.Holds })...)
	free := func(l *numbered) bool { return l.Holds.Count == 0 }
	columns = append(columns,
		report.Flag("approximate", func(l *numbered) bool { return l.Waits.Approximate || l.Holds.Approximate }).ForPrograms(),
		report.Count("convoy_count", func(l *numbered) uint64 { return l.Queued.Count }).Titled("convoys").Least(),
		report.Time("convoy_total", func(l *numbered) uint64 { return l.Queued.Ticks }).Titled("convoy time").Least(),
		report.Sum("no_holder", func(l *numbered) quantile.Sum { return l.Free() }).ForPrograms(),
		report.Sum("queued", func(l *numbered) quantile.Sum { return l.Queuing }).ForPrograms().When(d.Wakers),
		report.Thread("longest_hold", func(l *numbered) reader.Thread { return l.Longest.Thread }).Missing(free).ForPrograms(),
		report.Moment("longest_hold_start", func(l *numbered) uint64 { return l.Longest.Start }).Missing(free).ForPrograms(),
		report.Path("longest_hold_path", func(l *numbered) []reader.FuncID { return l.Longest.Path }).Missing(free).ForPrograms(),
		report.Rows("waiting_paths", func(l *numbered) *report.TableNode { return d.waitPaths(l.LockReport) }, nil),
		report.Rows("holding_paths", func(l *numbered) *report.TableNode { return d.holdPaths(l.LockReport) }, nil),
		report.Rows("blame", func(l *numbered) *report.TableNode { return d.blame(l.LockReport) }, nil),
		report.Rows("convoys", func(l *numbered) *report.TableNode { return convoys(l.LockReport) }, nil),
		report.Function("function", func(l *numbered) reader.FuncID { return l.Func }).Titled("lock function"),
	)
	return report.Table("locks", list, columns...).Top(d.view.Top)
}

// timeColumns are the columns of a sum of durations and its parts.
func timeColumns(sum, one string, of func(*numbered) *Times) []report.Column[numbered] {
	none := func(l *numbered) bool { return of(l).Count == 0 }
	about := func(l *numbered) bool { return of(l).Approximate }
	return []report.Column[numbered]{
		report.Sum(sum, func(l *numbered) quantile.Sum { return of(l).Sum }).Missing(none),
		report.Time(one+"_p50", func(l *numbered) uint64 { return of(l).P50 }).Missing(none).About(about).Least(),
		report.Time(one+"_p99", func(l *numbered) uint64 { return of(l).P99 }).Missing(none).About(about).Optional(),
		report.Time(one+"_max", func(l *numbered) uint64 { return of(l).Max }).Missing(none).Optional(),
	}
}

// details returns the paragraphs and tables of a lock, for people.
func (d *describer) details(l *LockReport) []report.Node {
	body := []report.Node{d.waitPaths(l), d.holdPaths(l)}
	if l.Holds.Count > 0 {
		body = append(body, report.Paragraph(fmt.Sprintf("Longest hold: %s at %s on thread %s, by %s.", d.Clock.Format(l.Longest.Ticks),
			d.Clock.Format(l.Longest.Start-min(l.Longest.Start, d.First)), d.view.Threads.Of(l.Longest.Thread), label.Path(d.names, l.Longest.Path, 0))))
	}
	if l.Queuing != (quantile.Sum{}) {
		body = append(body, report.Paragraph(fmt.Sprintf("For %s (%s) of the waiting, the waiter was runnable but not running.",
			report.Duration(d.Clock, l.Queuing), label.Percent(l.Queuing.Float64(), l.Waits.Sum.Float64()))))
	}
	if len(l.Blame) > 0 {
		body = append(body, d.blame(l).Top(d.view.Paths))
		if free := l.Free(); free != (quantile.Sum{}) {
			body = append(body, report.Paragraph(fmt.Sprintf("%s (%s) of the waiting has no recorded holder. Either threads woke up late, or the holds were not recorded.",
				report.Duration(d.Clock, free), label.Percent(free.Float64(), l.Waits.Sum.Float64()))))
		}
	}
	return append(body, convoys(l))
}

func (d *describer) waitPaths(l *LockReport) *report.TableNode {
	return report.Table("waiting_paths", l.WaitPaths, pathColumns("waiting", "waits", l.Waits.Sum)...).Top(d.view.Paths)
}

func (d *describer) holdPaths(l *LockReport) *report.TableNode {
	columns := append(pathColumns("held", "holds", l.Holds.Sum), report.Rows("spent_in", func(p *PathReport) *report.TableNode {
		return report.Table("spent_in", p.Self,
			report.Function("function", func(s *SelfReport) reader.FuncID { return s.Func }),
			report.Time("self", func(s *SelfReport) uint64 { return s.Ticks }),
		)
	}, d.spent))
	return report.Table("holding_paths", l.HoldPaths, columns...).Top(d.view.Paths)
}

func pathColumns(total, count string, all quantile.Sum) []report.Column[PathReport] {
	return []report.Column[PathReport]{
		report.Time("total", func(p *PathReport) uint64 { return p.Ticks }).Titled(total),
		report.Share("share", func(p *PathReport) float64 { return share(p.Ticks, all) }),
		report.Count("count", func(p *PathReport) uint64 { return p.Count }).Titled(count),
		report.Time("max", func(p *PathReport) uint64 { return p.Longest }).Optional(),
		report.Path("path", func(p *PathReport) []reader.FuncID { return p.Path }).Titled("by"),
	}
}

func share(ticks uint64, all quantile.Sum) float64 {
	if all == (quantile.Sum{}) {
		return 0
	}
	return float64(ticks) / all.Float64()
}

// spent returns where most of a hold was spent.
func (d *describer) spent(p *PathReport) string {
	own := p.Ticks
	for _, s := range p.Self {
		own -= min(own, s.Ticks)
	}
	share := func(ticks uint64) string { return label.Percent(float64(ticks), float64(p.Ticks)) }
	if len(p.Self) > 0 && p.Self[0].Ticks > own {
		return label.Func(d.names, p.Self[0].Func) + " " + share(p.Self[0].Ticks)
	}
	return "itself " + share(own)
}

func (d *describer) blame(l *LockReport) *report.TableNode {
	return report.Table("blame", l.Blame,
		report.Time("total", func(b *Blame) uint64 { return b.Ticks }).Titled("waiting"),
		report.Share("share", func(b *Blame) float64 { return share(b.Ticks, l.Waits.Sum) }),
		report.Time("by_waker", func(b *Blame) uint64 { return b.ByWaker }).Titled("by waker").Optional().When(d.Wakers),
		report.Path("waiter_path", func(b *Blame) []reader.FuncID { return b.Waiter }).Titled("waiter"),
		report.Path("holder_path", func(b *Blame) []reader.FuncID { return b.Holder }).Titled("while held by"),
	)
}

func convoys(l *LockReport) *report.TableNode {
	unheld := func(c *Convoy) bool { return !c.Held }
	return report.Table("convoys", l.Convoys,
		report.Moment("start", func(c *Convoy) uint64 { return c.Start }).Titled("convoy at"),
		report.Time("duration", func(c *Convoy) uint64 { return c.Ticks }).Titled("for"),
		report.Count("waits", func(c *Convoy) uint64 { return uint64(c.Waits) }),
		report.Count("most_waiting", func(c *Convoy) uint64 { return uint64(c.Most) }).Titled("at a time").Optional(),
		report.Thread("waiter", func(c *Convoy) reader.Thread { return c.First }).Titled("first waiter").Optional(),
		report.Thread("holder", func(c *Convoy) reader.Thread { return c.Holder }).Missing(unheld).Optional(),
		report.Path("holder_path", func(c *Convoy) []reader.FuncID { return c.Path }).Missing(unheld).Titled("held by"),
	)
}

// cycles returns tables of edges for people, and one table of such tables for programs.
func (d *describer) cycles() []report.Node {
	section := &report.Section{Title: "Lock orders that can deadlock"}
	for i := range d.Cycles {
		section.Body = append(section.Body, d.edges("edges", d.Cycles[i].Edges))
	}
	nodes := []report.Node{report.Programs{
		report.Table("cycles", d.Cycles, report.Rows("edges", func(c *Cycle) *report.TableNode { return d.edges("edges", c.Edges) }, nil)),
	}}
	if len(d.Cycles) > 0 {
		nodes = append(nodes, report.People{section})
	}
	return nodes
}

func (d *describer) edges(key string, list []Edge) *report.TableNode {
	name := func(i int) string { return d.name(&d.Locks[i]) }
	return report.Table(key, list,
		report.Count("count", func(e *Edge) uint64 { return e.Count }).Titled("times"),
		report.String("held", func(e *Edge) string { return name(e.Held) }).ForPeople(),
		report.String("taken", func(e *Edge) string { return name(e.Taken) }).ForPeople(),
		report.Count("held_lock", func(e *Edge) uint64 { return uint64(e.Held) + 1 }).ForPrograms(),
		report.Count("taken_lock", func(e *Edge) uint64 { return uint64(e.Taken) + 1 }).ForPrograms(),
		report.Moment("first", func(e *Edge) uint64 { return e.Start }).Titled("first at").Optional(),
		report.Thread("thread", func(e *Edge) reader.Thread { return e.Thread }).Least(),
		report.Path("held_path", func(e *Edge) []reader.FuncID { return e.HeldPath }).Titled("held by").Least(),
		report.Path("taken_path", func(e *Edge) []reader.FuncID { return e.TakenPath }).Titled("taken by"),
	)
}

func (d *describer) stuck() report.Node {
	unheld := func(o *Open) bool { return !o.Held }
	return report.Table("stuck", d.Stuck,
		report.Moment("start", func(o *Open) uint64 { return o.Start }).Titled("since"),
		report.Thread("thread", func(o *Open) reader.Thread { return o.Thread }),
		report.String("lock", func(o *Open) string { return d.name(&d.Locks[o.Lock]) }).ForPeople(),
		report.Count("lock", func(o *Open) uint64 { return uint64(o.Lock) + 1 }).ForPrograms(),
		report.Thread("holder", func(o *Open) reader.Thread { return o.Holder }).Missing(unheld).Optional(),
		report.Path("path", func(o *Open) []reader.FuncID { return o.Path }).Titled("waiter"),
		report.Path("holder_path", func(o *Open) []reader.FuncID { return o.HolderPath }).Missing(unheld).Titled("held by"),
	).Titled("Waits that last until the end of the trace")
}

// notes returns the limits of the report.
func (d *describer) notes() []string {
	var list []string
	add := func(n uint64, one, many, what string) {
		if n > 0 {
			list = append(list, label.Count(n, one, many)+" "+what)
		}
	}
	assumed := uint64(0)
	for i := range d.Locks {
		if !d.Locks[i].Logged {
			assumed++
		}
	}
	add(assumed, "lock function", "lock functions", "logged no address. All calls of such a function count as one lock. Use xray_log_args(1) to distinguish locks.")
	add(d.Woken.Count, "wait is", "waits are", "charged to the thread that woke the waiter, for "+d.Clock.Format(d.Woken.Ticks)+" in total: its hold is not recorded.")
	add(d.Gaps, "hold has", "holds have", "no recorded end. Such a hold ends when the lock is taken again, or does not count.")
	add(d.Handed, "lock was", "locks were", "released by another thread than the one that took it.")
	add(d.Orphans, "unlock was", "unlocks were", "of a lock without a recorded holder.")
	if d.Dropped {
		list = append(list, "There are too many locks to show separately. The rest are combined by lock function.")
	}
	return list
}

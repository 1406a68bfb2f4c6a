package why

import (
	"fmt"
	"io"

	"github.com/xray-tools/xray/explain/iocalls"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View selects what people see of a [Report].
type View struct {
	// Exemplars is how many slow calls are shown next to the median call.
	Exemplars int
	// All shows all causes with their intervals and paths, and the whole decomposition.
	All bool
	// Files are the trace files for suggested commands, quoted for a shell, with the options
	// for names.
	Files string
	// Full are the names by which commands find functions. nil means those of the report.
	Full  symbolize.Names
	Locks label.Locks
	// Library says which functions are of the C library. Reports name their callers. nil stands for none.
	Library func(reader.FuncID) bool
	// Request returns the command that shows the request that begins at a time, without the files, or "". IDs are
	// the flags that say what requests are. Request is nil if the calls are no requests.
	Request func(tsc uint64) string
	IDs     string
}

// Body describes the report. The decomposition adds up to the excess. The numbers of
// exemplars are those of [Exemplar.Number].
func (r *Report) Body(names symbolize.Names, view View) []report.Node {
	p := &phrases{r, names, view.Locks}
	body := []report.Node{report.People{p.head(view)}}
	if view.All && r.explained() {
		body = append(body, report.Paragraph(p.cohorts()))
	}
	body = append(body,
		report.Facts(r,
			report.String("root", func(*Report) string { return p.rootLabel() }),
			report.Count("calls", func(r *Report) uint64 { return r.Invocations }),
			report.Count("thread_count", func(r *Report) uint64 { return uint64(r.Threads) }),
			report.Time("p50", func(r *Report) uint64 { return r.Median }),
			report.Time("p99", func(r *Report) uint64 { return r.P99 }),
			report.Time("max", func(r *Report) uint64 { return r.Longest }),
			report.Mean("excess", func(r *Report) float64 { return r.Excess }),
		).Hidden(),
		r.Slow.section("slow"), r.Usual.section("usual"),
		report.Programs{report.Table("causes", p.causes(false), p.causeColumns()...)},
		report.Programs{p.suspects()}, p.preempted(), p.interrupted(), p.loop(), p.rest(),
	)
	if r.explained() && view.All {
		body = append(body, report.People{report.Table("causes", p.causes(true), p.causeColumns()...)})
		if r.Meanwhile != nil {
			body = append(body, report.Paragraph(p.whileRest()+", "+p.meanwhile(r.Meanwhile)))
		}
	}
	for i := range r.Causes {
		if !view.All {
			break
		}
		c := &r.Causes[i]
		body = append(body, report.People{&report.Section{Title: fmt.Sprintf("%d. %s", i+1, capital(p.phrase(c))), Body: []report.Node{
			report.Paragraph(p.details(c)), p.paths(c, true),
		}}})
	}
	shown, causes := r.Shown(view.Exemplars)
	for i, e := range shown {
		body = append(body, report.People{p.exemplar(e, causes[i], view)})
	}
	shown, _ = r.Shown(exemplarsOfCause)
	body = append(body, report.Programs{p.exemplars(shown), p.decomposition(r.Decomposition)})
	if view.All {
		body = append(body, report.People{p.decomposition(r.largestParts()).Titled("The whole difference, per slow call")})
	}
	body = append(body, report.Notes(p.Warnings))
	if r.explained() && !view.All {
		body = append(body, report.Paragraph("Pass --all to see intervals, call paths and example calls."))
	}
	return body
}

func (c *Cohort) section(key string) report.Node {
	return &report.Section{Key: key, Body: []report.Node{report.Facts(c,
		report.String("rule", func(c *Cohort) string { return c.Rule }),
		report.Count("count", func(c *Cohort) uint64 { return c.Count }),
		report.Mean("mean", func(c *Cohort) float64 { return c.Mean }),
	).Hidden()}}
}

func (p *phrases) suspects() *report.TableNode {
	return report.Table("suspects", p.Suspects,
		report.Share("share", func(s *Suspect) float64 { return s.Share }),
		report.Count("dominates", func(s *Suspect) uint64 { return uint64(s.Dominates) }),
		report.String("kind", func(s *Suspect) string { return s.Kind.String() }),
		report.Function("function", func(s *Suspect) reader.FuncID { return s.Func }),
		report.String("doubt", func(s *Suspect) string { return s.Doubt.String() }),
		report.Number("p", func(s *Suspect) float64 { return s.Chance }).Missing(func(s *Suspect) bool { return s.Doubt > Disturbance }),
		report.Count("needed", func(s *Suspect) uint64 { return uint64(s.Needed) }).Missing(func(s *Suspect) bool { return s.Needed == 0 }),
		report.Rows("called_with", func(s *Suspect) *report.TableNode { return p.reasons(&cause{Cause: s.cause()}) }, nil),
	)
}

// preempted is the time in the run queue and waiting for the recorder, for programs. It is
// nil if the trace has no off-CPU times.
func (p *phrases) preempted() report.Programs {
	if p.Preempted == nil {
		return nil
	}
	return report.Programs{&report.Section{Key: "preempted", Body: []report.Node{report.Facts(p.Preempted,
		report.Share("share", func(x *Preempted) float64 { return x.Share }),
		report.Count("dominates", func(x *Preempted) uint64 { return uint64(x.Dominates) }),
		report.Mean("usual_queued", func(x *Preempted) float64 { return x.Usual }),
		report.Mean("slow_queued", func(x *Preempted) float64 { return x.Slow }),
		report.Share("recorder", func(x *Preempted) float64 { return x.Recorder }),
	), p.throttled(), report.Table("instead", p.Preempted.Instead,
		report.String("task", func(i *Instead) string { return i.Task.Name }),
		report.Count("process", func(i *Instead) uint64 { return uint64(max(0, i.Task.PID)) }),
		report.Count("thread", func(i *Instead) uint64 { return uint64(i.Task.TID) }),
		report.Share("share", func(i *Instead) float64 { return i.Share }),
	)}}}
}

// throttled is the CPU quota that is the reason for the time in the run queue.
func (p *phrases) throttled() report.Programs {
	if p.Preempted.Throttled == nil {
		return nil
	}
	return report.Programs{&report.Section{Key: "quota", Body: []report.Node{report.Facts(p.Preempted.Throttled,
		report.String("cgroup", func(x *Throttled) string { return x.Group }),
		report.Count("quota_ns", func(x *Throttled) uint64 { return x.QuotaNS }),
		report.Count("period_ns", func(x *Throttled) uint64 { return x.PeriodNS }),
		report.Count("periods", func(x *Throttled) uint64 { return x.Periods }),
		report.Count("throttled_ns", func(x *Throttled) uint64 { return x.NS }),
		report.Share("share", func(x *Throttled) float64 { return x.Share }),
	)}}}
}

// interrupted is the time in which interrupts ran, for programs. It is nil if the trace has
// no interrupts.
func (p *phrases) interrupted() report.Programs {
	if p.Interrupted == nil {
		return nil
	}
	return report.Programs{&report.Section{Key: "interrupted", Body: []report.Node{report.Facts(p.Interrupted,
		report.Share("share", func(x *Interrupted) float64 { return x.Share }),
		report.Count("dominates", func(x *Interrupted) uint64 { return uint64(x.Dominates) }),
		report.Mean("usual_interrupted", func(x *Interrupted) float64 { return x.Usual }),
		report.Mean("slow_interrupted", func(x *Interrupted) float64 { return x.Slow }),
	), report.Table("by", p.Interrupted.By,
		report.String("interrupt", func(i *Instead) string { return i.Task.InterruptLabel() }),
		report.Share("share", func(i *Instead) float64 { return i.Share }),
	)}}}
}

// loop is what calls waited for before they began, for programs.
func (p *phrases) loop() report.Programs {
	if p.Loop == nil {
		return nil
	}
	return report.Programs{&report.Section{Key: "event_loop", Body: []report.Node{report.Facts(p.Loop,
		report.Function("function", func(x *Loop) reader.FuncID { return x.Func }),
		report.Function("callback", func(x *Loop) reader.FuncID { return x.Callback }),
		report.Function("busy", func(x *Loop) reader.FuncID { return x.Busy }),
		report.Count("calls", func(x *Loop) uint64 { return x.Calls }),
		report.Count("turns", func(x *Loop) uint64 { return x.Turns }),
		report.Mean("took", func(x *Loop) float64 { return float64(x.Took) }),
		report.Mean("waited", func(x *Loop) float64 { return float64(x.Mean) }),
		report.Mean("longest", func(x *Loop) float64 { return float64(x.Longest) }),
		report.Share("share", func(x *Loop) float64 { return x.Share }),
	)}}}
}

// rest is the part that no cause explains.
func (p *phrases) rest() report.Node {
	return &report.Section{Key: "rest", Body: []report.Node{
		report.Facts(p.Report, report.Share("share", func(r *Report) float64 { return r.Rest })).Hidden(),
		report.Programs{p.holders("coincides_with", p.Meanwhile)},
	}}
}

// cause is a row of causes.
type cause struct {
	*Cause
	rank int    // 0 for rows that are not causes
	what string // description of a row that is not a cause
}

// causes returns all causes. With rest, it adds the time that is not due to a cause, for
// people.
func (p *phrases) causes(rest bool) []cause {
	var list []cause
	for i := range p.Causes {
		list = append(list, cause{Cause: &p.Causes[i], rank: i + 1})
	}
	if !rest {
		return list
	}
	text := restText
	if p.Preempted != nil {
		text = restKnownText
		if share := p.Preempted.Share; share >= 0.005 {
			list = append(list, cause{Cause: &Cause{Share: share, Dominates: p.Preempted.Dominates}, what: preemptedText + p.behind()})
		}
		if share := p.Preempted.Recorder; share >= 0.005 {
			list = append(list, cause{Cause: &Cause{Share: share}, what: recorderText})
		}
	}
	if in := p.Interrupted; in != nil {
		text = restInterruptsText
		if in.Share >= 0.005 {
			list = append(list, cause{Cause: &Cause{Share: in.Share, Dominates: in.Dominates}, what: interruptedText + p.interruptedBy()})
		}
	}
	left := p.Rest
	for i := range p.Suspects {
		s := &p.Suspects[i]
		left -= s.Share
		list = append(list, cause{Cause: &Cause{Share: s.Share, Dominates: s.Dominates}, what: p.inTable(s)})
	}
	list = append(list, cause{Cause: &Cause{Share: max(0, left)}, what: text})
	return list
}

func (p *phrases) causeColumns() []report.Column[cause] {
	isRest := func(c *cause) bool { return c.rank == 0 }
	optional := func(key string, f func(c *cause) reader.FuncID) report.Column[cause] {
		return report.Function(key, f).Missing(func(c *cause) bool { return f(c) == 0 }).ForPrograms()
	}
	return []report.Column[cause]{
		report.Count("rank", func(c *cause) uint64 { return uint64(c.rank) }).Missing(isRest).Titled("#"),
		report.Share("share", func(c *cause) float64 { return c.Share }).Titled("lost time"),
		report.Share("share", func(c *cause) float64 { return c.Low }).To(func(c *cause) float64 { return c.High }).
			Missing(isRest).Titled("95% interval").Optional(),
		report.Count("dominates", func(c *cause) uint64 { return uint64(c.Dominates) }).Missing(func(c *cause) bool { return c.rank == 0 && c.Dominates == 0 }).Titled("slow calls"),
		report.String("kind", func(c *cause) string { return c.Kind.String() }).ForPrograms(),
		optional("function", func(c *cause) reader.FuncID { return c.Func }),
		report.String("address", func(c *cause) string { return address(c.Lock) }).Missing(func(c *cause) bool { return c.Lock == 0 }).ForPrograms(),
		report.String("lock_name", func(c *cause) string { return p.lock(c.Cause) }).Missing(func(c *cause) bool { return c.Lock == 0 }).ForPrograms(),
		report.Number("p", func(c *cause) float64 { return c.Chance }).Missing(func(c *cause) bool { return !c.ByChance }).ForPrograms(),
		report.Share("blocked", func(c *cause) float64 { return c.Blocked }).When(p.Preempted != nil).ForPrograms(),
		report.Share("faulted", func(c *cause) float64 { return c.Faulted }).When(p.Preempted != nil).ForPrograms(),
		report.Flag("spins", func(c *cause) bool { return c.Spins }).ForPrograms(),
		report.Count("behind", func(c *cause) uint64 { return uint64(c.Queue.Behind) }).Missing(func(c *cause) bool { return c.Queue == nil }).ForPrograms(),
		optional("most_in", func(c *cause) reader.FuncID { return c.Most }),
		optional("after", func(c *cause) reader.FuncID { return c.Between[0] }),
		optional("before", func(c *cause) reader.FuncID { return c.Between[1] }),
		report.Count("incident", func(c *cause) uint64 { return uint64(c.Incident) }).ForPrograms(),
		report.Rows("descriptors", func(c *cause) *report.TableNode {
			return report.Table("descriptors", c.Descriptors,
				report.Function("function", func(d *Descriptor) reader.FuncID { return d.Func }),
				report.String("name", func(d *Descriptor) string { return d.Name }),
				report.Count("calls", func(d *Descriptor) uint64 { return d.Calls }),
				report.Count("failed", func(d *Descriptor) uint64 { return d.Failed }),
				report.Rows("errors", func(d *Descriptor) *report.TableNode { return iocalls.ErrorTable(d.errors.List()) }, nil))
		}, nil),
		report.Rows("paths", func(c *cause) *report.TableNode { return p.paths(c.Cause, false) }, nil),
		report.Rows("waits_on", func(c *cause) *report.TableNode { return p.holders("waits_on", c.Holder) }, nil),
		report.Rows("associations", associations, nil),
		report.Rows("called_with", p.reasons, nil),
		report.Rows("along_with", func(c *cause) *report.TableNode {
			return report.Table("along_with", c.Along,
				report.String("kind", func(a *Companion) string { return a.Kind.String() }),
				report.Function("function", func(a *Companion) reader.FuncID { return a.Func }))
		}, nil),
		report.Rows("exemplars", func(c *cause) *report.TableNode {
			list := make([]*Exemplar, len(c.Exemplars))
			for i := range list {
				list[i] = &c.Exemplars[i]
			}
			return p.exemplars(list)
		}, nil),
		report.String("what", func(c *cause) string {
			if c.rank == 0 {
				return c.what
			}
			return p.phrase(c.Cause)
		}).Titled("cause"),
	}
}

// path is a column of call paths from the root. If there are several roots, it has only
// names.
func path[T any](p *phrases, f func(*T) []reader.FuncID) report.Column[T] {
	if p.Root != 0 {
		return report.Path("path", f)
	}
	return report.NamePath("path", func(t *T) []string { return p.path(f(t), "") })
}

// paths are the call paths of a cause. For people, a lock's address is part of the path,
// and paths with little of the cause are omitted.
func (p *phrases) paths(c *Cause, people bool) *report.TableNode {
	var list []CausePath
	for i := range c.Paths {
		if !people || i == 0 || c.Paths[i].Share > 0.1*c.Share {
			list = append(list, c.Paths[i])
		}
	}
	time := "self"
	switch {
	case len(list) > 0 && list[0].Callees:
		time = "total"
	case c.blocks:
		time = "blocked"
	case c.Kind == Slower && p.Preempted != nil:
		time = "cpu"
	}
	where := path(p, func(c *CausePath) []reader.FuncID { return c.Path })
	if people {
		where = report.NamePath("path", func(x *CausePath) []string { return p.path(x.Path, p.lock(c)) })
	}
	return report.Table("paths", list,
		report.Share("share", func(c *CausePath) float64 { return c.Share }).ForPrograms(),
		report.Number("usual_calls", func(c *CausePath) float64 { return c.Usual.Calls }),
		report.Mean("usual_"+time, func(c *CausePath) float64 { return c.Usual.Ticks }),
		report.Number("slow_calls", func(c *CausePath) float64 { return c.Affected.Calls }),
		report.Mean("slow_"+time, func(c *CausePath) float64 { return c.Affected.Ticks }),
		where,
	)
}

// holders describes a holder in one row, or has no rows if h is nil.
func (p *phrases) holders(key string, h *Holder) *report.TableNode {
	var list []Holder
	if h != nil {
		list = append(list, *h)
	}
	noFacts := func(h *Holder) bool {
		return p.Preempted == nil || h.Evidence == ByCoincidence || h.Evidence == ByExecutor
	}
	return report.Table(key, list,
		report.Function("scope", func(h *Holder) reader.FuncID { return h.Scope }),
		report.Function("function", func(h *Holder) reader.FuncID { return h.Self }),
		report.Share("covered", func(h *Holder) float64 { return h.Covered }),
		report.Share("holder_blocked", func(h *Holder) float64 { return h.Blocked }).Missing(noFacts),
		report.Share("holder_queued", func(h *Holder) float64 { return h.Queued }).Missing(noFacts),
		report.Share("self_share", func(h *Holder) float64 { return h.SelfShare }),
		report.Share("other_requests", func(h *Holder) float64 { return h.Other }).Missing(func(h *Holder) bool { return h.Evidence != ByExecutor }),
		report.String("other_class", func(h *Holder) string { return h.OtherClass }).Missing(func(h *Holder) bool { return h.OtherClass == "" }),
		report.Share("expected", func(h *Holder) float64 { return h.Expected }),
		report.Flag("ends_with", func(h *Holder) bool { return h.Ends }),
		report.Count("cause", func(h *Holder) uint64 { return uint64(h.Cause) }).Missing(func(h *Holder) bool { return h.Cause == 0 }),
		report.String("evidence", func(h *Holder) string { return h.Evidence.String() }),
	)
}

func associations(c *cause) *report.TableNode {
	not := func(kinds ...string) func(*Association) bool {
		return func(a *Association) bool {
			for _, kind := range kinds {
				if a.Kind == kind {
					return false
				}
			}
			return true
		}
	}
	return report.Table("associations", c.Associations,
		report.String("kind", func(a *Association) string { return a.Kind }),
		report.Count("count", func(a *Association) uint64 { return uint64(a.Count) }),
		report.Count("of", func(a *Association) uint64 { return uint64(a.Of) }),
		report.Thread("thread", func(a *Association) reader.Thread { return a.Thread }).Missing(not("thread")),
		report.Function("function", func(a *Association) reader.FuncID { return a.Func }).Missing(not("argument")),
		report.String("value", func(a *Association) string { return label.Argument(a.Value) }).Missing(not("argument")),
		report.Time("period", func(a *Association) uint64 { return a.Value }).Missing(not("period")),
		report.String("text", func(a *Association) string { return a.Text }).Missing(not("event", "host", "build", "label")),
		report.Count("hosts", func(a *Association) uint64 { return uint64(a.Machines) }).Missing(not("host", "build", "label")),
		report.Share("usual_share", func(a *Association) float64 { return a.Elsewhere }).Missing(not("host")),
		report.Count("hosts_with", func(a *Association) uint64 { return uint64(a.With) }).Missing(not("build", "label")),
		report.Number("p", func(a *Association) float64 { return a.Chance }).Missing(not("build", "label")),
	)
}

// exemplars are slow calls with their trees, for programs.
func (p *phrases) exemplars(list []*Exemplar) *report.TableNode {
	return report.Table("exemplars", list,
		report.Count("number", func(e **Exemplar) uint64 { return (*e).Number }).Missing(func(e **Exemplar) bool { return p.Origins != nil }),
		report.Thread("thread", func(e **Exemplar) reader.Thread { return (*e).Thread }),
		report.Moment("start", func(e **Exemplar) uint64 { return (*e).Start }).Missing(func(e **Exemplar) bool { return p.Origins != nil }),
		report.Time("duration", func(e **Exemplar) uint64 { return (*e).Duration }),
		report.Rows("tree", func(e **Exemplar) *report.TableNode { return p.tree(*e) }, nil),
	)
}

// exemplar shows a slow call next to the median call, with or without a cause.
func (p *phrases) exemplar(e *Exemplar, cause int, view View) report.Node {
	s := &report.Section{Title: p.exemplarTitle(e, cause), Body: []report.Node{p.tree(e)}}
	if e.Number > 0 {
		commands := p.commands(e, view)
		s.Body = append(s.Body, report.Paragraph("To see what all threads did at that time:"),
			&report.Drawing{Text: func(w io.Writer, _ int) error {
				_, err := fmt.Fprintf(w, "%s\n%s\n", commands[0], commands[1])
				return err
			}})
	}
	return s
}

func (p *phrases) tree(e *Exemplar) *report.TableNode {
	noSlow, noMedian := func(r *Row) bool { return r.Slow.Calls == 0 }, func(r *Row) bool { return r.Median.Calls == 0 }
	function := report.Function("function", func(r *Row) reader.FuncID { return r.Func })
	if p.Root == 0 {
		function = report.String("function", func(r *Row) string {
			if r.Depth == 0 {
				return p.rootLabel()
			}
			return p.label(r.Func)
		})
	}
	return report.Tree("tree", e.Tree, func(r *Row) int { return r.Depth },
		report.Number("slow_calls", func(r *Row) float64 { return r.Slow.Calls }).Missing(noSlow),
		report.Mean("slow_total", func(r *Row) float64 { return r.Slow.Ticks }).Missing(noSlow),
		report.Number("median_calls", func(r *Row) float64 { return r.Median.Calls }).Missing(noMedian),
		report.Mean("median_total", func(r *Row) float64 { return r.Median.Ticks }).Missing(noMedian),
		report.Flag("differs", func(r *Row) bool { return r.Differs }),
		function,
	)
}

// decomposition has the contribution of each path.
func (p *phrases) decomposition(parts []Part) *report.TableNode {
	return report.Table("decomposition", parts,
		report.Mean("slower", func(p *Part) float64 { return p.Slower }),
		report.Mean("more_calls", func(p *Part) float64 { return p.More }),
		report.Mean("new_path", func(p *Part) float64 { return p.New }),
		report.Mean("blocked", func(p *Part) float64 { return p.Blocked }).When(p.Preempted != nil),
		report.Mean("preempted", func(p *Part) float64 { return p.Preempted }).When(p.Preempted != nil),
		report.String("address", func(p *Part) string { return address(p.Lock) }).Missing(func(p *Part) bool { return p.Lock == 0 }),
		path(p, func(p *Part) []reader.FuncID { return p.Path }),
	)
}

func address(lock uint64) string { return fmt.Sprintf("%#x", lock) }

// callsOfRoot begins a warning: a number of calls of the root, and a verb.
func callsOfRoot(n uint64, verb, verbs string) string {
	return label.Count(n, "call of the root "+verb, "calls of the root "+verbs)
}

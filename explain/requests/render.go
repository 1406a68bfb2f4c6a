package requests

import (
	"fmt"
	"strings"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// View selects what people see of a report.
type View struct {
	Base    uint64 // TSC to which times are relative, the smallest of the trace
	Threads label.Threads
	Trees   *Trees  // of the requests that are shown
	Sleeps  *Sleeps // of the requests that are shown, or nil
	// Occupants are what threads did while the requests that are shown waited for them.
	Occupants *Occupants
	// MinShare omits segments and calls with less than this part of the request's time,
	// from 0 to 1, from waterfalls.
	MinShare float64
	Rows     int // maximum rows of a table; 0 for all
}

// Body describes the report. Names are for waterfalls.
func (r *Report) Body(names symbolize.Names, v View) []report.Node {
	var body []report.Node
	if len(r.Requests) > 0 || r.Cut > 0 {
		body = append(body, report.Paragraph(r.head()))
	}
	body = append(body,
		report.Facts(r,
			report.Count("request_count", func(r *Report) uint64 { return uint64(len(r.Requests)) }),
			report.Count("segment_count", func(r *Report) uint64 { return uint64(r.Segments) }),
			report.Count("thread_count", func(r *Report) uint64 { return uint64(r.Threads) }),
			report.Count("unfinished_count", func(r *Report) uint64 { return uint64(r.Cut) }),
			report.Count("one_in", func(r *Report) uint64 { return r.Every }),
			report.Count("reused_keys", func(r *Report) uint64 { return uint64(r.Reused) }),
			report.Time("pause", func(r *Report) uint64 { return r.Pause }),
			report.Count("events_outside", func(r *Report) uint64 { return r.Outside }),
			report.Count("shared_keys", func(r *Report) uint64 { return uint64(r.Shared) }),
		).Hidden(),
		report.Facts(r, quantiles(func(r *Report) *Quantiles { return &r.Durations })...).Hidden(),
		report.Notes(r.notes()),
		report.Programs{r.all()},
	)
	if len(r.Requests) > 0 {
		body = append(body, r.classes(v), r.steps(v), r.comparison(v))
	}
	shown := &report.List{Key: "shown"}
	for i, q := range r.Shown {
		w := &waterfall{q: q, parts: q.Path(), clock: r.Clock, names: names, v: v, offKnown: r.OffKnown}
		shown.Items = append(shown.Items, report.Section{Title: w.title(i + 1), Body: w.body()})
	}
	return append(body, shown)
}

func (r *Report) head() string {
	text := fmt.Sprintf("%s in %s on %s", count(len(r.Requests), "request", "requests"), count(r.Segments, "segment", "segments"),
		count(r.Threads, "thread", "threads"))
	if q := &r.Durations; q.Count > 0 {
		about := ""
		if q.Approximate {
			about = "about "
		}
		text += fmt.Sprintf(": median %s%s, p99 %s%s, longest %s", about, r.Clock.Format(q.P50), about, r.Clock.Format(q.P99), r.Clock.Format(q.Max))
	}
	return text + "."
}

// notes returns the limits of the numbers.
func (r *Report) notes() []string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if r.Every > 1 {
		add("There are too many requests to keep. The report covers a sample: the requests of one in %s keys.", label.Grouped(r.Every))
	}
	if r.Cut > 0 {
		add("%s unfinished at the end of the trace and not counted.", count(r.Cut, "more request was", "more requests were"))
	}
	if r.Reused > 0 {
		add("%s used again. A key that reappears after more than %s starts a new request.", count(r.Reused, "key was", "keys were"),
			r.Clock.Format(r.Pause))
	}
	if r.Shared > 0 {
		others := ""
		if r.Shared > 1 {
			others = fmt.Sprintf(", and %s on several", count(r.Shared-1, "other key is", "other keys are"))
		}
		add("The key %s is active on %d threads at once in the same function%s: is it an ID of requests? "+
			"Compilers do not pass an argument that the function ignores, so its value may be left over.",
			printable(r.MostShared), r.MostThreads, others)
	}
	if r.Bounds > 0 && r.Bounds < r.Waits {
		add("The program does not say when a request could go on (xray_request_ready) before %s of %s. The times in queues and "+
			"handoffs before these are upper bounds.", label.Grouped(uint64(r.Bounds)), count(r.Waits, "wait", "waits"))
	}
	if r.Truncated > 0 {
		add("%s a key of which only the first bytes were recorded. Record more with EXPRESSION:SIZE.",
			label.Count(r.Truncated, "call is without a request: it has", "calls are without a request: they have"))
	}
	if r.Outside > 0 {
		add("%s outside of all calls and not counted.", label.Count(r.Outside, "event with a key was", "events with a key were"))
	}
	return notes
}

// quantiles returns columns for durations.
func quantiles[T any](of func(*T) *Quantiles) []report.Column[T] {
	approximate := func(r *T) bool { return of(r).Approximate }
	return []report.Column[T]{
		report.Time("mean", func(r *T) uint64 { return of(r).Mean }).ForPrograms(),
		report.Time("p50", func(r *T) uint64 { return of(r).P50 }).About(approximate),
		report.Time("p90", func(r *T) uint64 { return of(r).P90 }).About(approximate).Least(),
		report.Time("p99", func(r *T) uint64 { return of(r).P99 }).About(approximate).Optional(),
		report.Time("max", func(r *T) uint64 { return of(r).Max }).Optional(),
		report.Flag("approximate", approximate).ForPrograms(),
	}
}

// sums is a request with the time of its critical path by kind, computed on demand.
type sums struct {
	*Request
	known bool
	times [Suspended + 1]uint64
	off   calls.Off // of times[Run]
}

func (s *sums) sum() *sums {
	if s.known {
		return s
	}
	for _, p := range s.Path() {
		s.times[p.Kind] += p.End - p.Start
		if p.Kind == Run {
			s.off.Add(p.Off)
		}
	}
	s.known = true
	return s
}

func spent(k Kind) func(*sums) uint64 {
	return func(s *sums) uint64 { return s.sum().times[k] }
}

// all returns a table of the requests, for programs.
func (r *Report) all() *report.TableNode {
	list := make([]sums, len(r.Requests))
	for i := range list {
		list[i].Request = &r.Requests[i]
	}
	return report.Table("requests", list,
		report.String("key", func(s *sums) string { return s.Key }),
		report.Count("number", func(s *sums) uint64 { return uint64(s.Number) }),
		report.String("class", func(s *sums) string { return s.Class }),
		report.Thread("thread", func(s *sums) reader.Thread { return s.Segments[0].Thread }),
		report.Moment("start", func(s *sums) uint64 { return s.Start }),
		report.Time("duration", func(s *sums) uint64 { return s.Duration() }),
		report.Time("run", spent(Run)),
		report.Time("blocked", func(s *sums) uint64 { return s.sum().off.Blocked }).When(r.OffKnown),
		report.Time("queued", func(s *sums) uint64 { return s.sum().off.Queued }).When(r.OffKnown),
		report.Time("queue", spent(Queue)),
		report.Time("handoff", spent(Handoff)),
		report.Time("suspended", spent(Suspended)),
		report.Count("segment_count", func(s *sums) uint64 { return uint64(len(s.Segments)) }),
		report.Count("thread_count", func(s *sums) uint64 { return uint64(s.Request.Threads()) }),
	)
}

func (r *Report) classes(v View) report.Node {
	columns := append([]report.Column[Class]{
		report.Count("count", func(c *Class) uint64 { return c.Count }),
		report.Count("slow_count", func(c *Class) uint64 { return uint64(c.Slow) }).Titled("slow"),
	}, quantiles(func(c *Class) *Quantiles { return &c.Quantiles })...)
	columns = append(columns, report.String("class", func(c *Class) string {
		if c.Name == "" {
			return "(none)"
		}
		return c.Name
	}).ForPeople(), report.String("class", func(c *Class) string { return c.Name }).ForPrograms())
	return report.Table("classes", r.Classes, columns...).Titled("Classes").Top(v.Rows)
}

// stepColumns returns the columns that name the step of a row.
func stepColumns[T any](of func(*T) *Step) []report.Column[T] {
	return []report.Column[T]{
		report.String("kind", func(r *T) string { return of(r).Kind.String() }).Titled(""),
		report.Path("function", func(r *T) []reader.FuncID {
			if s := of(r); s.From != 0 {
				return []reader.FuncID{s.From, s.To}
			}
			return []reader.FuncID{of(r).To}
		}).ForPeople(),
		report.Function("from", func(r *T) reader.FuncID { return of(r).From }).Missing(func(r *T) bool { return of(r).From == 0 }).ForPrograms(),
		report.Function("function", func(r *T) reader.FuncID { return of(r).To }).ForPrograms(),
	}
}

// queue returns a function that reports whether the step of a row has no off-CPU times.
func queue[T any](of func(*T) *Step) func(*T) bool {
	return func(r *T) bool { return !of(r).offKnown() }
}

func (r *Report) steps(v View) report.Node {
	columns := append([]report.Column[StepRow]{
		report.Sum("total", func(s *StepRow) quantile.Sum { return s.Time }),
		report.Share("share", func(s *StepRow) float64 { return ratio(s.Time.Float64(), r.Time.Float64()) }),
		report.Time("blocked", func(s *StepRow) uint64 { return s.Off.Blocked }).Missing(queue(func(s *StepRow) *Step { return &s.Step })).When(r.OffKnown),
		report.Time("queued", func(s *StepRow) uint64 { return s.Off.Queued }).Missing(queue(func(s *StepRow) *Step { return &s.Step })).When(r.OffKnown),
		report.Count("count", func(s *StepRow) uint64 { return s.Count }).Titled("requests"),
	}, quantiles(func(s *StepRow) *Quantiles { return &s.Quantiles })...)
	columns = append(columns, stepColumns(func(s *StepRow) *Step { return &s.Step })...)
	return report.Table("steps", r.Steps, columns...).Titled("Time on the critical path").Top(v.Rows)
}

func ratio(part, whole float64) float64 {
	if whole == 0 {
		return 0
	}
	return part / whole
}

// comparison shows what makes slow requests slow.
func (r *Report) comparison(v View) report.Node {
	c := &r.Slow
	excess := c.SlowMean - c.UsualMean
	mean := func(ticks float64) string { return label.Ticks(r.Clock, ticks) }
	text := fmt.Sprintf("Slow requests (%s): %s, %s on average. Usual requests (p25 to p75): %s, %s on average. Difference to explain: %s.",
		c.Rule, label.Grouped(uint64(c.Slow)), mean(c.SlowMean), label.Grouped(uint64(c.Usual)), mean(c.UsualMean), mean(excess))
	if len(c.Steps) == 0 {
		text = fmt.Sprintf("Slow requests (%s): %d. Usual requests: %d. There are too few requests to compare.", c.Rule, c.Slow, c.Usual)
	}
	columns := append([]report.Column[StepDifference]{
		report.Mean("difference", func(s *StepDifference) float64 { return s.SlowMean - s.UsualMean }).Signed(),
		report.Share("share", func(s *StepDifference) float64 { return ratio(s.SlowMean-s.UsualMean, excess) }).Signed(),
		report.Mean("blocked_difference", func(s *StepDifference) float64 { return s.Blocked }).Titled("blocked").Signed().When(r.OffKnown),
		report.Mean("queued_difference", func(s *StepDifference) float64 { return s.Queued }).Titled("queued").Signed().When(r.OffKnown),
		report.Mean("slow_mean", func(s *StepDifference) float64 { return s.SlowMean }).Titled("slow"),
		report.Mean("usual_mean", func(s *StepDifference) float64 { return s.UsualMean }).Titled("usual"),
		report.Count("dominates", func(s *StepDifference) uint64 { return uint64(s.Dominates) }).Optional(),
	}, stepColumns(func(s *StepDifference) *Step { return &s.Step })...)
	return &report.Section{Key: "comparison", Title: "What makes slow requests slow", Body: []report.Node{
		report.Paragraph(text),
		report.Facts(c,
			report.String("rule", func(c *Comparison) string { return c.Rule }),
			report.Count("slow_count", func(c *Comparison) uint64 { return uint64(c.Slow) }),
			report.Count("usual_count", func(c *Comparison) uint64 { return uint64(c.Usual) }),
			report.Mean("slow_mean", func(c *Comparison) float64 { return c.SlowMean }),
			report.Mean("usual_mean", func(c *Comparison) float64 { return c.UsualMean }),
		).Hidden(),
		report.Table("steps", c.Steps, columns...).Top(v.Rows),
	}}
}

func count(n int, one, many string) string { return label.Count(uint64(n), one, many) }

// printable makes text of a program printable, for a title.
func printable(s string) string { return strings.TrimSpace(texttab.Printable(s)) }

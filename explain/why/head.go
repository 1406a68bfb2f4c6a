package why

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/xray-tools/xray/explain/iocalls"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// head is the beginning of a report: what is slow, why, where, how certain that is, and what to do next.
type head struct {
	*phrases
	view  View
	lines []line
}

// line is a line of the head. Continuation lines are indented as far as its text.
type line struct {
	label string
	text  string
	whole bool // a command, which is never broken
}

// headWidth is the number of columns of the head, and labelWidth that of its labels.
const headWidth, labelWidth = 100, 8

// head describes the report in a few lines for people.
func (t *phrases) head(view View) *report.Drawing {
	h := &head{phrases: t, view: view}
	h.write()
	return &report.Drawing{Text: func(w io.Writer, width int) error {
		if width <= 0 || width > headWidth {
			width = headWidth
		}
		for _, l := range h.lines {
			first := l.label
			if first != "" || l.whole {
				first = fmt.Sprintf("%-*s", labelWidth, l.label)
			}
			text := []string{first + l.text}
			if !l.whole {
				text = texttab.Wrap(texttab.Printable(l.text), first, strings.Repeat(" ", labelWidth), width)
			}
			if _, err := io.WriteString(w, strings.Join(text, "\n")+"\n"); err != nil {
				return err
			}
		}
		return nil
	}}
}

func (h *head) add(label, format string, args ...any) {
	h.lines = append(h.lines, line{label: label, text: fmt.Sprintf(format, args...)})
}

// row adds a part with its share.
func (h *head) row(share float64, format string, args ...any) {
	if share >= 0.0005 {
		h.add(fmt.Sprintf("  %4s", rounded(share)), format, args...)
	}
}

// rounded formats a share. A small one is not 0 %.
func rounded(x float64) string {
	if x > 0 && x < 0.005 {
		return "<1%"
	}
	return percent(x)
}

// reason is an incident, or time that belongs to no function.
type reason struct {
	share    float64
	sentence string
	causes   []*Cause // the first one is the reason of the others
	rows     func()
	sure     string
	next     []line
}

func (h *head) write() {
	if !h.explained() {
		h.add("", "%s", h.cohorts())
		return
	}
	h.add("", "%s", h.slowness())
	reasons, rest := h.reasons()
	for i, r := range reasons {
		title := "CAUSE"
		if i > 0 {
			title = "ALSO"
		}
		h.add("", "%s (%s of the lost time): %s.", title, rounded(r.share), r.sentence)
		if i == 0 || len(r.causes) > 0 {
			r.rows()
		}
		if i == 0 {
			for _, x := range rest {
				h.row(x.share, "%s", x.sentence)
			}
			h.unexplained()
		}
		h.places(r)
		if i == 0 || r.sure != reasons[0].sure {
			h.add("sure", "%s", r.sure)
		}
	}
	h.loops()
	for i := range h.Suspects {
		s := &h.Suspects[i]
		if s.Doubt == Behind {
			continue
		}
		h.add("", "PROBABLY (%s of the lost time): %s.", rounded(s.Share), h.suspected(s)+h.when(s.cause()))
		if s.Reason != nil {
			h.add("when", "%s", h.reason(s.cause()))
		}
		h.add("sure", "no: %s", h.doubts(s))
	}
	if len(reasons) == 0 {
		if !slices.ContainsFunc(h.Suspects, func(s Suspect) bool { return s.Doubt != Behind }) {
			h.add("", "No function explains the slow calls of %s.", h.rootLabel())
		}
		for _, x := range rest {
			h.row(x.share, "%s", x.sentence)
		}
		h.unexplained()
	}
	if chosen := Chosen(h.names, h.Candidates); chosen != "" {
		h.add("root", "%s", chosen)
	}
	h.next(reasons)
}

// loops says for which callback of an event loop other calls waited. That is before they begin, so it has no share of
// their time.
func (h *head) loops() {
	l := h.Loop
	if l == nil {
		return
	}
	where, request := h.label(l.Busy), ""
	if l.Requests {
		request = ", called for another call of " + h.rootLabel()
	}
	h.add("", "ALSO (before the calls): they wait for the event loop, which is busy in %s for %s%s. Up to %s in %s of %s began up to %s late, %s on average.",
		where, h.Clock.Format(l.Took), request, label.Count(l.Calls, "call", "calls"), label.Count(l.Turns, "turn", "turns"), h.label(l.Func),
		h.Clock.Format(l.Longest), h.Clock.Format(l.Mean))
	h.add("where", "%s", h.located(l.Busy))
	h.add("sure", "yes: the calls are recorded. When their events came is not, so they may have waited for less")
}

// slowness says which calls take how long.
func (h *head) slowness() string {
	rule := ""
	if !strings.Contains(h.Slow.Rule, " ") {
		rule = fmt.Sprintf(" (%s)", h.Slow.Rule)
	}
	take := "take"
	if h.Slow.Count == 1 {
		take = "takes"
	}
	return fmt.Sprintf("%s: %s of %s%s %s %s instead of %s.", h.rootLabel(), label.Grouped(h.Slow.Count),
		label.Count(h.Invocations, "call", "calls"), rule, take, h.ticks(h.Slow.Mean), h.ticks(h.Usual.Mean))
}

// reasons returns the reasons that are told at length, the largest share first, and those that are only rows.
func (h *head) reasons() (list, rest []reason) {
	for _, in := range h.numbered() {
		r := reason{share: in.share}
		for _, i := range in.parts {
			r.causes = append(r.causes, &h.Causes[i])
		}
		k := r.causes[0]
		r.sentence, r.sure = h.sentence(r.causes), h.certainty(r.causes)
		r.rows = func() { h.parts(r.causes) }
		small := in.share < preemptedShare || in.share < clearShare && !slices.ContainsFunc(r.causes, func(c *Cause) bool { return c.Low >= minLow })
		if small && !slices.ContainsFunc(r.causes, func(c *Cause) bool { return c.argued }) {
			r.sentence = h.phrase(k)
			if k.Low < 0.005 {
				r.sentence = fmt.Sprintf("perhaps %s (95%% interval %s to %s)", r.sentence, percent(k.Low), percent(k.High))
			}
			rest = append(rest, r)
			continue
		}
		list = append(list, r)
	}
	apart := func(share float64, sentence, brief string, usual, slow float64, what string, who []Instead, sure string, next ...line) {
		r := reason{share: share, sentence: sentence, sure: sure, next: next}
		r.rows = func() {
			if slow > 0 {
				h.row(share, "a slow call %s for %s on average, a usual one for %s%s", what, h.ticks(slow), h.ticks(usual), h.ran(who))
			}
		}
		if share < preemptedShare {
			r.sentence = brief
			rest = append(rest, r)
			return
		}
		list = append(list, r)
	}
	if p := h.Preempted; p != nil {
		next := line{text: "xray residency " + h.view.Files, whole: true}
		who := p.Instead
		sure := "yes: the trace shows when threads waited for a CPU"
		if q := p.Throttled; q != nil {
			sure += fmt.Sprintf(", and when the quota of %s in each %s stopped the cgroup: up to %s of that", nanoseconds(q.QuotaNS), nanoseconds(q.PeriodNS), percent(q.Share))
			who, next = nil, line{text: "Raise the quota (cpu.max), or use fewer threads at once."}
		} else if len(p.Instead) == 0 {
			next = line{text: "Record with --sched to see which program ran instead."}
		}
		apart(p.Share, "it is preempted"+h.behind(), "waiting for a CPU"+h.behind(), p.Usual, p.Slow, "waits for a CPU", who,
			sure, next)
		apart(p.Recorder, "it waits for the recorder", "waiting for the recorder", 0, 0, "", nil, "yes: the trace shows when threads waited for the recorder",
			line{text: "Record fewer calls, or use --ring or --drop."})
	}
	if in := h.Interrupted; in != nil {
		apart(in.Share, "it is interrupted"+h.interruptedBy(), "interrupts"+h.interruptedBy(), in.Usual, in.Slow, "is interrupted", nil,
			"yes: the trace shows when interrupts ran")
	}
	for i := range h.Suspects {
		if s := &h.Suspects[i]; s.Doubt == Behind {
			rest = append(rest, reason{share: s.Share, sentence: h.inTable(s)})
		}
	}
	byShare := func(a, b reason) int { return cmp.Compare(b.share, a.share) }
	slices.SortStableFunc(list, byShare)
	slices.SortStableFunc(rest, byShare)
	return list, rest
}

// ran names the tasks that ran while slow calls were preempted, if none ran for half of the time.
func (h *head) ran(list []Instead) string {
	const most = 3
	if len(list) == 0 || list[0].Share >= 0.5 {
		return ""
	}
	var names []string
	for _, i := range list[:min(len(list), most)] {
		names = append(names, fmt.Sprintf("%s (%s) %s", texttab.Printable(i.Task.Name), i.number(), percent(i.Share)))
	}
	return ". Then ran " + strings.Join(names, ", ")
}

// unexplained tells the rest.
func (h *head) unexplained() {
	left := h.Rest
	for i := range h.Suspects {
		left -= h.Suspects[i].Share
	}
	what := "unexplained: at scattered points"
	if h.Meanwhile != nil {
		what = "unexplained: while that is lost, " + strings.TrimSuffix(h.meanwhile(h.Meanwhile), ".")
	}
	h.row(max(0, left), "%s", what)
}

// user returns the innermost function on the way to a cause that is not of the C library, and its path.
func (h *head) user(c *Cause) (fn reader.FuncID, path []reader.FuncID) {
	if len(c.Paths) == 0 {
		return c.Func, nil
	}
	path = c.Paths[0].Path
	for len(path) > 1 && h.ofLibrary(path[len(path)-1]) {
		path = path[:len(path)-1]
	}
	return path[len(path)-1], path
}

func (h *head) ofLibrary(fn reader.FuncID) bool { return h.view.Library != nil && h.view.Library(fn) }

// sentence says what the causes of an incident come from.
func (h *head) sentence(causes []*Cause) string {
	c := causes[0]
	text := h.phrase(c)
	in := ""
	if c.Kind == Blocked && h.ofLibrary(c.Func) {
		fn, _ := h.user(c)
		text, in = h.label(c.Func)+h.target(c, c.Func)+" blocks", " in "+h.label(fn)
	}
	if c.Kind == LockWait && h.lock(c) != "" {
		text = fmt.Sprintf("it %s for the lock %s", c.verb(), h.lock(c))
	}
	if c.Kind == MoreCalls {
		text += h.failures(c)
	}
	if c.Kind == NewPath {
		text += h.target(c, cmp.Or(c.Most, c.Func))
	}
	if c.Holder != nil && c.Holder.Evidence == ByExecutor {
		return text + h.busy(c.Holder)
	}
	if x := c.Holder; x != nil && x.Covered >= headline {
		if c.Kind == LockWait && x.Evidence != ByCoincidence {
			text += ", which " + h.label(x.Scope) + " holds" + h.itself(x)
		} else if x.Self == c.Func {
			text += " for another thread in " + h.where(x) + h.itself(x)
		} else if why := h.itself(x); why != "" {
			text += " for " + h.label(x.Scope) + why
		} else {
			text += " for " + h.where(x)
		}
		return text
	}
	for _, w := range causes[1:] {
		x := w.Holder
		if x == nil || x.Cause == 0 {
			continue
		}
		if x.Evidence == ByCoincidence {
			return text + in + fmt.Sprintf(", and other calls %s in %s, probably for that", strings.TrimSuffix(w.verb(), "s"), h.label(w.Func))
		}
		if w.Kind == LockWait {
			return text + fmt.Sprintf(" while %s holds the lock%s", h.label(x.Scope), blank(h.lock(w)))
		}
		return text + in + ", and other calls wait for " + h.where(x)
	}
	if c.Queue != nil {
		in += ", where other calls probably wait behind the blocked one"
	}
	return text + in + h.when(c)
}

func blank(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

// itself says why a holder takes long, if the trace shows it.
func (h *head) itself(x *Holder) string {
	switch {
	case x.Blocked >= 0.5 && x.Self != x.Scope:
		return " while it is blocked in " + h.label(x.Self)
	case x.Blocked >= 0.5:
		return " while it is blocked itself"
	case x.Queued >= 0.5:
		return " while it is preempted"
	case x.Self != x.Scope && x.SelfShare >= 0.5:
		return " while it is in " + h.label(x.Self)
	}
	return ""
}

// target names the file or socket of a function's calls, if most of them use the same one.
func (h *head) target(c *Cause, fn reader.FuncID) string {
	all := uint64(0)
	for _, d := range c.Descriptors {
		if d.Func == fn {
			all += d.Calls
		}
	}
	for _, d := range c.Descriptors {
		if d.Func == fn && 2*d.Calls > all && d.Name != "" {
			return fmt.Sprintf(" (%s)", texttab.Printable(d.Name))
		}
	}
	return ""
}

// failures says how many calls of the function with the most time fail, if most of them do.
func (h *head) failures(c *Cause) string {
	if len(c.Descriptors) == 0 {
		return ""
	}
	fn := c.Descriptors[0].Func
	var all, failed uint64
	for _, d := range c.Descriptors {
		if d.Func == fn {
			all, failed = all+d.Calls, failed+d.Failed
		}
	}
	if 2*failed <= all {
		return ""
	}
	times := label.Count(failed, "time", "times")
	if known := h.errors(c, fn); len(known) == 1 && known[0].Calls == failed {
		times += " with " + known[0].Error
	} else if len(known) > 0 {
		times += fmt.Sprintf(" (%s)", iocalls.Text(known[:min(len(known), 3)]))
	}
	if fn == c.Func {
		return fmt.Sprintf("%s, which fails %s", h.target(c, fn), times)
	}
	return fmt.Sprintf("; %s%s fails %s", h.label(fn), h.target(c, fn), times)
}

// errors returns the errors with which calls of a function fail, most frequent first.
func (h *head) errors(c *Cause, fn reader.FuncID) []iocalls.Failure {
	var all iocalls.Errors
	for _, d := range c.Descriptors {
		if d.Func == fn {
			all.Merge(d.errors)
		}
	}
	return all.List()
}

// doesIO reports whether a cause is I/O of the C library.
func (h *head) doesIO(c *Cause) bool {
	return slices.ContainsFunc(c.Descriptors, func(d Descriptor) bool { return d.Func == c.Func || d.Func == c.Most }) || h.failures(c) != ""
}

// parts adds a row for each cause of an incident.
func (h *head) parts(causes []*Cause) {
	for _, c := range causes {
		text := h.calls(c)
		for i := range c.Associations {
			if a := &c.Associations[i]; a.Kind == "period" || a.Kind == "bursts" {
				text += ", " + h.inTime(a)
			}
		}
		if x := c.Holder; x != nil {
			text += h.held(c, x)
		}
		if c.Queue != nil {
			text += "; " + c.Queue.text()
		}
		h.row(c.Share, "%s", text)
	}
	for _, c := range causes {
		if c.Reason != nil {
			h.add("when", "%s", h.reason(c))
		}
		var common []string
		for i := range c.Associations {
			if a := &c.Associations[i]; a.Kind != "period" && a.Kind != "bursts" {
				common = append(common, h.association(a))
			}
		}
		if len(common) > 0 {
			h.add("when", "%s", strings.Join(common, "; "))
		}
	}
}

func (h *head) inTime(a *Association) string {
	if a.Kind == "period" {
		return "every " + h.Clock.Format(a.Value)
	}
	return fmt.Sprintf("in %d bursts", a.Count)
}

// calls says how many slow calls are due to a cause, and how much each of them differs.
func (h *head) calls(c *Cause) string {
	var usual, slow Amount
	for _, p := range c.Paths {
		usual.Calls, usual.Ticks = usual.Calls+p.Usual.Calls, usual.Ticks+p.Usual.Ticks
		slow.Calls, slow.Ticks = slow.Calls+p.Affected.Calls, slow.Ticks+p.Affected.Ticks
	}
	number := label.Count(uint64(c.Dominates), "call", "calls")
	s := ""
	if c.Dominates == 1 {
		s = "s"
	}
	if uint64(h.Kept) < h.Slow.Count {
		number += " of the sample"
	}
	name, least := h.label(c.Func), ""
	if c.omitted > 0 {
		least = "at least "
	}
	time := least + h.ticks(slow.Ticks)
	if usual.Ticks > slow.Ticks/100 {
		time += " instead of " + h.ticks(usual.Ticks)
	}
	verb := func(one, many string) string {
		if c.Dominates == 1 {
			return one
		}
		return many
	}
	switch {
	case c.Func == reader.Suspended:
		return fmt.Sprintf("%s %s suspended, %s each", number, verb("is", "are"), time)
	case c.Func == reader.ExecutorAwaited:
		return fmt.Sprintf("%s wait%s, %s each", number, s, time)
	case c.Func == reader.ExecutorAtMost:
		return fmt.Sprintf("%s wait%s, each at most %s", number, s, time)
	case c.Kind == MoreCalls:
		return fmt.Sprintf("%s make%s %s%s calls of %s instead of %s", number, s, least, amount(slow.Calls), name, amount(usual.Calls))
	case c.Kind == NewPath:
		path := "this path"
		if c.Holder != nil {
			path = "the path " + name
		}
		if c.Blocked >= 0.5 {
			time += fmt.Sprintf(" each, blocked for %s of that", percent(c.Blocked))
		} else {
			time += " each"
		}
		return fmt.Sprintf("%s take%s %s, %s", number, s, path, time)
	case c.Kind == Blocked:
		return fmt.Sprintf("%s %s blocked in %s, %s each", number, verb("is", "are"), name, time)
	case c.Spins:
		return fmt.Sprintf("%s spin%s in %s, %s on the CPU each", number, s, name, time)
	case c.Kind == LockWait && h.lock(c) != "":
		return fmt.Sprintf("%s wait%s for the lock %s, %s each", number, s, h.lock(c), time)
	case c.Kind == LockWait || c.Kind == Wait:
		return fmt.Sprintf("%s wait%s in %s, %s each", number, s, name, time)
	case h.Preempted != nil:
		return fmt.Sprintf("%s use%s the CPU for %s in %s itself", number, s, time, name)
	}
	return fmt.Sprintf("%s spend%s %s in %s itself", number, s, time, name)
}

// amount formats a mean number of calls.
func amount(x float64) string {
	if x >= 10 {
		return label.Grouped(uint64(math.Round(x)))
	}
	return fmt.Sprintf("%.3g", x)
}

// held says for how much of the waiting a holder is responsible.
func (h *head) held(c *Cause, x *Holder) string {
	switch x.Evidence {
	case ByCoincidence:
		return fmt.Sprintf("; another thread is in %s for %s of that", h.where(x), percent(x.Covered))
	case ByExecutor:
		text := ""
		if x.Covered >= leastTold {
			text = fmt.Sprintf("; the executor is in %s for %s of that", h.where(x), percent(x.Covered))
		}
		if x.Other >= leastTold {
			text += fmt.Sprintf("; it works on other requests%s for %s", x.otherClass(), percent(x.Other))
		}
		return text
	case ByWaking:
		return fmt.Sprintf("; %s ends %s of that", h.where(x), percent(x.Covered))
	}
	text := fmt.Sprintf("; %s holds it for %s of that", h.label(x.Scope), percent(x.Covered))
	if x.Self != x.Scope {
		text += fmt.Sprintf(", in %s for %s", h.label(x.Self), percent(x.SelfShare))
	}
	return text
}

// places adds where the reason of an incident is.
func (h *head) places(r reason) {
	if len(r.causes) == 0 {
		return
	}
	c := r.causes[0]
	fn, path := h.user(c)
	if x := c.Holder; x != nil && (x.Covered >= headline || x.Evidence == ByExecutor && x.Covered >= 0.5) && c.Kind != NewPath {
		fn, path = c.Holder.Scope, nil
		if h.ofLibrary(fn) && !h.ofLibrary(c.Holder.Self) {
			fn = c.Holder.Self
		}
	}
	text := h.located(fn)
	if len(path) > 0 {
		path = c.Paths[0].Path
		text += ": " + strings.Join(h.path(path, ""), " > ")
	}
	h.add("where", "%s", text)
	if d := h.between(c); d != "" {
		h.lines[len(h.lines)-1].text += ". " + d
	}
}

// located is a function with its file and line, if these are known.
func (h *head) located(fn reader.FuncID) string {
	text := h.label(fn)
	if at := symbolize.Location(h.names, fn); fn != 0 && at != "" {
		text += ", " + texttab.Printable(at)
	}
	return text
}

// certainty says on what evidence an incident is known.
func (h *head) certainty(causes []*Cause) string {
	var list []string
	sure := "yes"
	add := func(text string) {
		if !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	for _, c := range causes {
		switch {
		case c.Func == reader.ExecutorAtMost:
			sure = "probably"
			add("the trace does not show when the requests could go on, so the executor's part is an upper bound")
		case c.Awaits():
			add("the program says when its requests can go on")
		case c.argued:
			add(h.argued(c.Reason.alone))
		case c.blocks || c.Kind == Blocked:
			add("the trace shows when threads were blocked")
			if c.Queue != nil {
				sure = "probably"
				add("waits that begin at different times and end together are probably for one thing")
			}
		case !c.ByChance && (c.Kind == MoreCalls || c.Kind == NewPath):
			add("the calls are recorded")
			if h.failures(c) != "" && len(h.errors(c, c.Descriptors[0].Func)) == 0 {
				add("their error numbers are not")
			}
		case c.Spins && c.Holder != nil:
			add("the trace shows when threads were on a CPU")
		default:
			if c.Chance > maxChance || h.Slow.Count < fewSlow {
				sure = "probably"
			}
			add(fmt.Sprintf("chance is unlikely (%s)", probability(c.Chance)))
		}
		x := c.Holder
		if x == nil {
			if c.Kind == LockWait {
				sure = "probably"
				add("the trace does not show who held the lock")
			}
			continue
		}
		switch x.Evidence {
		case ByAddress:
			add("lock and holder are recorded")
		case ByFunction:
			sure = "probably"
			add("without lock addresses, xray assumes that " + h.label(c.Func) + " takes a single lock")
		case ByExecutor:
			add("the calls of the executor are recorded")
		case ByWaking:
			add("the wake-ups are recorded")
		case ByCoincidence:
			sure = "probably"
			add(strings.TrimSuffix(h.meanwhile(x), "."))
		}
	}
	return sure + ": " + strings.Join(list, "; ")
}

// next adds the commands that show more, at most two.
func (h *head) next(reasons []reason) {
	var list []line
	command := func(text string) { list = append(list, line{text: text + " " + h.view.Files, whole: true}) }
	root := "--root " + ShellQuote(h.rootExpression(h.view))
	if h.view.Request != nil {
		root = h.view.IDs
	}
	var exemplar *Exemplar
	if shown, _ := h.Shown(1); len(shown) > 0 {
		exemplar = shown[0]
	}
	if len(reasons) > 0 {
		r := reasons[0]
		list = append(list, r.next...)
		if len(r.causes) > 0 {
			c := r.causes[0]
			if len(c.Exemplars) > 0 {
				exemplar = &c.Exemplars[0]
			}
			switch {
			case h.doesIO(c):
				command("xray io")
			case slices.ContainsFunc(r.causes, func(c *Cause) bool { return c.Kind == LockWait }):
				command("xray locks")
			case c.Kind == MoreCalls && h.view.Request == nil:
				command("xray shapes " + root)
			case c.Kind == NewPath:
				command("xray slowest " + root)
			}
		}
	} else if h.Origins == nil {
		command("xray slowest " + root)
	}
	switch {
	case exemplar == nil:
	case h.view.Request != nil:
		if text := h.view.Request(exemplar.Start); text != "" {
			command(text)
		}
	case exemplar.Number > 0:
		list = append(list, line{text: h.commands(exemplar, h.view)[1], whole: true})
	}
	for i, l := range list[:min(len(list), 2)] {
		if i == 0 {
			l.label = "next"
		} else {
			l.label = strings.Repeat(" ", labelWidth)
		}
		h.lines = append(h.lines, l)
	}
}

// rootExpression is a regular expression that selects the root.
func (t *phrases) rootExpression(view View) string {
	if t.RootLabel != "" {
		return t.RootLabel
	}
	names := t.names
	if view.Full != nil {
		names = view.Full
	}
	return "^" + regexp.QuoteMeta(symbolize.Label(names, t.Root)) + "$"
}

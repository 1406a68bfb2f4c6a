package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// phrases writes a report as sentences, for all formats.
type phrases struct {
	*Report
	names symbolize.Names
	locks label.Locks
}

const (
	restText      = "the rest: lost at scattered points (scheduler, page faults, noise)"
	restKnownText = "the rest: lost at scattered points (interrupts, page faults, noise)"
	preemptedText = "preempted: runnable, but waiting for a CPU"
	recorderText  = "waiting for the recorder"

	restInterruptsText = "the rest: lost at scattered points (page faults, noise)"
	interruptedText    = "interrupted: an interrupt ran on the thread's CPU"
)

// explained reports whether there were two cohorts to compare.
func (r *Report) explained() bool { return r.Kept > 0 && r.Usual.Count > 0 }

func (t *phrases) ticks(x float64) string { return label.Ticks(t.Clock, x) }

// label is the name of a function. 0 stands for any of several roots.
func (t *phrases) label(fn reader.FuncID) string {
	if fn == 0 && t.Root == 0 && len(t.Roots) > 0 {
		return t.rootLabel()
	}
	return texttab.Printable(symbolize.Label(t.names, fn))
}

func (t *phrases) rootLabel() string {
	const most = 3
	if t.Root != 0 || len(t.Roots) == 0 {
		return t.label(t.Root)
	}
	var names []string // several programs may have a function of one name
	for _, fn := range t.Roots {
		if name := t.label(fn); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if n := len(names) - most; n > 0 {
		names = names[:most]
		return fmt.Sprintf("%s and %d others", strings.Join(names, ", "), n)
	}
	return strings.Join(names, ", ")
}

func percent(x float64) string { return fmt.Sprintf("%.0f%%", 100*x) }

// Chosen says how a root was chosen and names other candidates. It returns "" without candidates.
func Chosen(names symbolize.Names, candidates []Candidate) string {
	if len(candidates) == 0 {
		return ""
	}
	var list []string
	for _, c := range candidates[:min(len(candidates), 4)] {
		list = append(list, texttab.Printable(symbolize.Label(names, c.Func)))
	}
	text := fmt.Sprintf("The root is %s: its slow calls lose the most time.", list[0])
	if len(list) > 1 {
		text += " Choose another with --root: " + strings.Join(list[1:], ", ") + "."
	}
	return text
}

const (
	// headline is the minimum share of the waiting for a holder to be part of the answer.
	headline = 0.7
	// preemptedShare is the same share of the lost time for preemption, the recorder and
	// interrupts.
	preemptedShare = 0.05
)

// behind says where slow calls were preempted if they were spinning, and names the task that ran for at least half of
// the time. It returns "" if neither is known.
func (t *phrases) behind() string {
	if t.Preempted == nil {
		return ""
	}
	for i := range t.Causes {
		if c := &t.Causes[i]; c.Preempted >= 0.5 {
			return fmt.Sprintf(", for %s of that while it spins in %s", percent(c.Preempted), t.label(c.Func)) + t.instead()
		}
	}
	return t.instead()
}

func (t *phrases) instead() string {
	if q := t.Preempted.Throttled; q != nil {
		return fmt.Sprintf(": the CPU quota of the cgroup %s stopped it (%s, %s)", texttab.Printable(q.Group), label.Count(q.Periods, "period", "periods"), nanoseconds(q.NS))
	}
	if len(t.Preempted.Instead) == 0 {
		return ""
	}
	i := &t.Preempted.Instead[0]
	if i.Share < 0.5 {
		return ", behind no single program"
	}
	if i.recorder() {
		return ", mostly behind the recorder"
	}
	return fmt.Sprintf(", mostly behind %s (%s)", texttab.Printable(i.Task.Name), i.number())
}

// interruptedBy names the interrupt that took the most time in slow calls, or returns "".
func (t *phrases) interruptedBy() string {
	if t.Interrupted == nil || len(t.Interrupted.By) == 0 {
		return ""
	}
	i := &t.Interrupted.By[0]
	how := "by"
	switch {
	case len(t.Interrupted.By) == 1:
	case i.Share > 0.5:
		how = "mostly by"
	default:
		how = "largely by"
	}
	return fmt.Sprintf(", %s %s", how, texttab.Printable(i.Task.InterruptLabel()))
}

// recorder reports whether a task writes the trace, or is the recorder's thread in the program.
func (i *Instead) recorder() bool { return i.Task.Name == "xray" || i.Task.Name == "xray-ctl" }

// number returns the process or thread ID of a task.
func (i *Instead) number() string {
	if i.Task.PID > 0 {
		return fmt.Sprintf("pid %d", i.Task.PID)
	}
	return fmt.Sprintf("tid %d", i.Task.TID)
}

// whileRest begins a sentence about what other threads did.
func (t *phrases) whileRest() string {
	if t.Preempted != nil {
		return "While it is preempted"
	}
	return "While the rest is lost"
}

// cohorts describes the compared calls.
func (t *phrases) cohorts() string {
	text := fmt.Sprintf("%s: %s on %s, median %s, p99 %s, longest %s. %s", t.rootLabel(), label.Count(t.Invocations, "call", "calls"),
		label.Count(uint64(t.Threads), "thread", "threads"), t.Clock.Format(t.Median), t.Clock.Format(t.P99), t.Clock.Format(t.Longest),
		t.cohort("slow", &t.Slow)+t.cohort("usual", &t.Usual))
	if t.explained() {
		text += fmt.Sprintf("Each slow call loses %s.", t.ticks(t.Excess))
	}
	return strings.TrimSpace(text)
}

func (t *phrases) cohort(what string, c *Cohort) string {
	switch c.Count {
	case 0:
		return fmt.Sprintf("No call is %s (%s). ", what, c.Rule)
	case 1:
		return fmt.Sprintf("The %s call (%s) takes %s. ", what, c.Rule, t.ticks(c.Mean))
	}
	return fmt.Sprintf("The %s %s calls (%s) take %s on average. ", label.Grouped(c.Count), what, c.Rule, t.ticks(c.Mean))
}

// phrase describes a cause.
func (t *phrases) phrase(c *Cause) string {
	name := t.label(c.Func)
	if text := awaited[c.Func]; text != "" && c.Kind != MoreCalls {
		return text
	}
	switch c.Kind {
	case MoreCalls:
		return fmt.Sprintf("it makes more calls of %s", name)
	case NewPath:
		text := fmt.Sprintf("it takes the path %s", name)
		if c.Most != 0 {
			text += fmt.Sprintf(", most of it in %s", t.label(c.Most))
		}
		if c.Blocked >= 0.5 {
			text += fmt.Sprintf(", blocked%s for %s of that time", c.byFaults(), percent(c.Blocked))
		}
		return text
	case LockWait, Wait:
		if c.Most != 0 {
			name = fmt.Sprintf("%s, in %s", name, t.label(c.Most))
		}
		if c.Kind == LockWait {
			return fmt.Sprintf("it %s for the lock in %s", c.verb(), name)
		}
		return fmt.Sprintf("it %s in %s", c.verb(), name)
	}
	if c.Kind == Blocked && c.byFaults() != "" {
		return fmt.Sprintf("it is blocked%s in %s", c.byFaults(), name)
	}
	if c.Kind == Blocked {
		return fmt.Sprintf("it is blocked longer in %s", name)
	}
	return fmt.Sprintf("%s itself is slower", name)
}

// verb says how the thread waits.
func (c *Cause) verb() string {
	if c.Spins {
		return "spins"
	}
	return "waits"
}

// awaited says what a request waits for in the functions that stand for waits.
var awaited = map[reader.FuncID]string{
	reader.Suspended:       "it is suspended for longer",
	reader.ExecutorAwaited: "it waits for its executor",
	reader.ExecutorAtMost:  "it is suspended, or waits for its executor",
}

// Awaits reports whether a cause is the wait of a request for its next part, and none of a function.
func (c *Cause) Awaits() bool { return awaited[c.Func] != "" }

// leastTold is the least share of a wait that is told.
const leastTold = 0.1

// otherClass names the class of the other requests that an executor works on, in parentheses, or returns "".
func (h *Holder) otherClass() string {
	if h.OtherClass == "" {
		return ""
	}
	return " (" + texttab.Printable(h.OtherClass) + ")"
}

// busy says what the executor of a request did for most of its waits, or returns "".
func (t *phrases) busy(h *Holder) string {
	switch {
	case h.Covered >= 0.5 && h.Other >= 0.5:
		return ", which is busy in " + t.where(h) + " for another request" + h.otherClass()
	case h.Covered >= 0.5:
		return ", which is busy in " + t.where(h)
	case h.Other >= 0.5:
		return ", which is busy with other requests" + h.otherClass()
	}
	return ""
}

// byFaults says that page faults block the thread, if most of the blocked time has some.
func (c *Cause) byFaults() string {
	if c.Faulted >= 0.5 {
		return " by page faults"
	}
	return ""
}

// details describes a cause further, in sentences.
func (t *phrases) details(c *Cause) string {
	var list []string
	if c.Holder != nil {
		list = append(list, t.holder(c))
	}
	if c.Queue != nil {
		list = append(list, capital(c.Queue.text())+".")
	}
	if text := t.between(c); text != "" {
		list = append(list, text)
	}
	if c.Reason != nil {
		list = append(list, t.reason(c))
	}
	if c.argued {
		list = append(list, "The reason is proven: "+t.argued(c.Reason.alone)+".")
	} else if c.ByChance && !c.blocks && !c.Spins {
		list = append(list, fmt.Sprintf("Chance is an unlikely explanation (%s).", probability(c.Chance)))
	}
	var common []string
	for i := range c.Associations {
		common = append(common, t.association(&c.Associations[i]))
	}
	if len(common) > 0 {
		list = append(list, "What the affected calls have in common: "+strings.Join(common, "; ")+".")
	}
	const most = 3
	var along []string
	for i, a := range c.Along {
		if i == most {
			along = append(along, fmt.Sprintf("%d more", len(c.Along)-i))
			break
		}
		along = append(along, t.phrase(&Cause{Kind: a.Kind, Func: a.Func}))
	}
	if len(along) > 0 {
		list = append(list, "It coincides with: "+strings.Join(along, "; ")+".")
	}
	return strings.Join(list, " ")
}

// probability formats the probability of chance.
func probability(p float64) string {
	if p < 1e-9 {
		return "p < 1e-9"
	}
	return "p = " + chance(p)
}

// chance formats a probability.
func chance(p float64) string { return label.ShortExponent(fmt.Sprintf("%.1g", p)) }

// lock returns the name of the lock that a cause waits for, or "".
func (t *phrases) lock(c *Cause) string {
	if c.Lock == 0 {
		return ""
	}
	file := int32(-1)
	if len(c.Exemplars) > 0 {
		file = c.Exemplars[0].Thread.File
	}
	return t.locks.Name(t.names, file, c.Taker, c.Lock)
}

// path returns the names on a path from the root. The last one includes the lock's name, if there is one.
func (t *phrases) path(path []reader.FuncID, lock string) []string {
	names := make([]string, len(path))
	for i, fn := range path {
		names[i] = t.label(fn)
	}
	names[0] = t.rootLabel()
	if lock != "" {
		names[len(names)-1] += " (" + lock + ")"
	}
	return names
}

// where names the functions of a holder.
func (t *phrases) where(h *Holder) string {
	if h.Self == h.Scope {
		return t.label(h.Self)
	}
	return t.label(h.Scope) + ", in " + t.label(h.Self)
}

// holder describes what a cause waits for.
func (t *phrases) holder(c *Cause) string {
	h := c.Holder
	var text string
	switch h.Evidence {
	case ByCoincidence:
		text = capital(t.meanwhile(h))
	case ByExecutor:
		text = fmt.Sprintf("Its executor is in %s for %s of the waiting.", t.where(h), percent(h.Covered))
		if h.Other >= leastTold {
			text += fmt.Sprintf(" It works on other requests%s for %s.", h.otherClass(), percent(h.Other))
		}
	case ByWaking:
		text = fmt.Sprintf("A thread in %s ends %s of the waiting by waking the thread.", t.where(h), percent(h.Covered))
	default:
		text = fmt.Sprintf("%s holds the lock for %s of the waiting.", t.label(h.Scope), percent(h.Covered))
		if h.Self != h.Scope {
			text += fmt.Sprintf(" Most of that time it is in %s (%s).", t.label(h.Self), percent(h.SelfShare))
		}
		if h.Evidence == ByFunction {
			text += fmt.Sprintf(" The trace has no lock addresses, so xray assumes that %s takes a single lock.", t.label(c.Func))
		}
	}
	switch {
	case h.Blocked >= 0.5:
		text += fmt.Sprintf(" It is blocked itself for %s of that time.", percent(h.Blocked))
	case h.Queued >= 0.5:
		text += fmt.Sprintf(" It is preempted itself for %s of that time.", percent(h.Queued))
	}
	if h.Cause > 0 {
		text += fmt.Sprintf(" Cause %d explains why that is slow.", h.Cause)
	}
	return text
}

// meanwhile describes what other threads did when time was lost.
func (t *phrases) meanwhile(h *Holder) string {
	text := fmt.Sprintf("another thread is in %s during %s of the lost time, and during %s of other times.",
		t.where(h), percent(h.Covered), percent(h.Expected))
	if h.Ends {
		text += fmt.Sprintf(" The wait ends when %s ends.", t.label(h.Self))
	}
	return text
}

func (t *phrases) between(c *Cause) string {
	before, after := c.Between[0], c.Between[1]
	switch {
	case before != 0 && after != 0:
		return fmt.Sprintf("The time is lost between the calls of %s and %s.", t.label(before), t.label(after))
	case before != 0:
		return fmt.Sprintf("The time is lost after the call of %s.", t.label(before))
	case after != 0:
		return fmt.Sprintf("The time is lost before the call of %s.", t.label(after))
	}
	return ""
}

func (t *phrases) association(a *Association) string {
	switch a.Kind {
	case "host", "build", "label":
		return a.onMachines()
	case "thread":
		return fmt.Sprintf("%d of %d are on thread %d", a.Count, a.Of, a.Thread.Thread)
	case "start":
		return fmt.Sprintf("%d of %d are among the first tenth of their thread's calls", a.Count, a.Of)
	case "argument":
		return fmt.Sprintf("%d of %d have the argument %s of %s", a.Count, a.Of, label.Argument(a.Value), t.label(a.Func))
	case "event":
		return fmt.Sprintf("%d of %d have the event %q", a.Count, a.Of, a.Text)
	case "period":
		return fmt.Sprintf("every %s, %d calls at %d times", t.Clock.Format(a.Value), a.Of, a.Count)
	}
	return fmt.Sprintf("%d calls in %d bursts", a.Of, a.Count)
}

// exemplarTitle returns the title of an exemplar, with or without a cause.
func (t *phrases) exemplarTitle(e *Exemplar, cause int) string {
	of := "A typical slow call"
	if cause > 0 && len(t.Causes) > 1 {
		of += fmt.Sprintf(" of cause %d", cause)
	}
	if t.Origins != nil {
		o := &t.Origins[e.Thread.File]
		return fmt.Sprintf("%s: thread %d, at %s of %s", of, e.Thread.Thread, t.Clock.Format(e.Start-o.Start), texttab.Printable(o.File))
	}
	number := ""
	if e.Number > 0 {
		number = fmt.Sprintf("number %d, ", e.Number)
	}
	return fmt.Sprintf("%s: %sthread %d, at %s", of, number, e.Thread.Thread, t.Clock.Format(e.Start-t.Start))
}

// commands returns commands that extract an exemplar and its surroundings, and make a page of
// them.
func (t *phrases) commands(e *Exemplar, view View) [2]string {
	root := t.rootExpression(view)
	margin := fmt.Sprintf("%dticks", e.Duration/4+1)
	if t.Clock.Known() {
		margin = fmt.Sprintf("%dns", t.Clock.Nanos(e.Duration/4)+1)
	}
	if t.RootDepth != 0 && t.RootDepth != 1 { // the others count outermost calls
		from := e.Start - t.Start
		since := func(ticks uint64) string {
			if t.Clock.Known() {
				return fmt.Sprintf("%dns", t.Clock.Nanos(ticks))
			}
			return fmt.Sprintf("%dticks", ticks)
		}
		which := fmt.Sprintf("--from %s --to %s -o slow-%d", since(from-min(from, e.Duration/4)), since(from+e.Duration+e.Duration/4+1), e.Number)
		return [2]string{"xray slice " + which + ".xray " + view.Files, "xray html " + which + ".html " + view.Files}
	}
	which := fmt.Sprintf("--around %s --margin %s -o slow-%d", ShellQuote(fmt.Sprintf("%s#%d", root, e.Number)), margin, e.Number)
	return [2]string{"xray slice " + which + ".xray " + view.Files, "xray html " + which + ".html " + view.Files}
}

// ShellQuote quotes text as one word for a shell.
func ShellQuote(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// largestParts returns the parts of the decomposition, the largest first.
func (r *Report) largestParts() []Part {
	parts := slices.Clone(r.Decomposition)
	slices.SortStableFunc(parts, func(a, b Part) int {
		return cmp.Compare(b.Slower+b.More+b.New, a.Slower+a.More+a.New)
	})
	return parts
}

// capital makes the first letter a capital, unless the sentence begins with a name.
func capital(s string) string {
	if strings.HasPrefix(s, "it ") || strings.HasPrefix(s, "another ") {
		return strings.ToUpper(s[:1]) + s[1:]
	}
	return s
}

package account

import (
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// View says how a report is written. The zero value is a table for a terminal.
type View struct {
	Format    Format
	Histogram bool // adds a small histogram of durations to the rows of Text and Markdown
	Objects   bool // adds the file that each function is in; not in JSON
}

// Format is what [Report.Write] writes.
type Format string

const (
	Text     Format = ""         // an aligned table, with notes below it
	CSV      Format = "csv"      // a row a line, below a header that names the unit
	JSON     Format = "json"     // one object, with an array of rows
	Markdown Format = "markdown" // a table, with notes below it
	LLVMText Format = "llvm-text"
	LLVMCSV  Format = "llvm-csv"
)

// Write renders the report. The same report and names give the same bytes.
//
// Text and Markdown give times in the unit that suits each, to four digits. CSV
// and JSON give them in nanoseconds, rounded to the nearest; where the trace
// does not state the frequency of its clock, all formats give ticks, and say so.
// LLVMText and LLVMCSV have the shapes that llvm-xray writes.
//
// Names may be nil, and functions are then shown by their ids.
func (r *Report) Write(w io.Writer, v View, names symbolize.Names) error {
	switch v.Format {
	case Text:
		return r.writeText(w, v, names)
	case Markdown:
		return r.writeMarkdown(w, v, names)
	case CSV:
		return r.writeCSV(w, v, names)
	case JSON:
		return r.writeJSON(w, names)
	case LLVMText:
		return r.writeLLVMText(w, names)
	case LLVMCSV:
		return r.writeLLVMCSV(w, names)
	}
	return fmt.Errorf("unknown format %q", v.Format)
}

func (r *Report) writeText(w io.Writer, v View, names symbolize.Names) error {
	if _, err := io.WriteString(w, r.summary()+"\n"); err != nil {
		return err
	}
	if len(r.Rows) > 0 {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := r.table(v, names).WriteText(w); err != nil {
			return err
		}
	}
	for i, note := range r.notes(v) {
		if i == 0 {
			note = "\n" + note
		}
		if _, err := io.WriteString(w, note+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func (r *Report) writeMarkdown(w io.Writer, v View, names symbolize.Names) error {
	if _, err := io.WriteString(w, r.summary()+"\n\n"); err != nil {
		return err
	}
	if err := r.table(v, names).WriteMarkdown(w); err != nil {
		return err
	}
	for _, note := range r.notes(v) {
		if _, err := io.WriteString(w, "\n"+note+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// summary is the line above a table.
func (r *Report) summary() string {
	s := grouped(uint64(r.Functions)) + plural(uint64(r.Functions), " function", " functions") + ", " +
		grouped(r.Calls) + plural(r.Calls, " call", " calls")
	if !r.OnlyCounted() {
		s += ", " + r.duration(r.Self) + " of self time"
		if r.Cost != nil {
			s += " without the cost of recording"
		}
		if !r.Clock.Known() {
			s += " in ticks"
		}
	}
	if shown := r.shown(); shown < r.Functions {
		s += "; " + grouped(uint64(shown)) + plural(uint64(shown), " function", " functions") + " shown"
	}
	return s
}

// shown is the number of different functions in the rows.
func (r *Report) shown() int {
	part := Report{Rows: r.Rows}
	part.countFunctions()
	return part.Functions
}

// table lays the rows out for people.
func (r *Report) table(v View, names symbolize.Names) *texttab.Table {
	t := new(texttab.Table)
	right := func(titles ...string) {
		for _, title := range titles {
			t.Columns = append(t.Columns, texttab.Column{Title: title, Right: true})
		}
	}
	left := func(title string) { t.Columns = append(t.Columns, texttab.Column{Title: title}) }

	files, processes := r.manyThreads()
	if files {
		right("file")
	}
	if processes {
		right("process")
	}
	if r.PerThread {
		right("thread")
	}
	threadNames := r.threadNames()
	if threadNames != nil {
		left("name")
	}
	right("count")
	switch {
	case r.OnlyCounted():
	case r.Cost != nil:
		right(compensatedTitles...)
	default:
		right("self", "share", "total", "min", "p50", "p90", "p99", "p99.9", "max")
	}
	if v.Histogram && !r.OnlyCounted() {
		left("histogram")
	}
	locations := r.locations(names)
	if locations != nil {
		left("location")
	}
	if v.Objects {
		left("object")
	}
	left("function")

	first, last := r.octaves()
	tails := r.marksTails()
	for i := range r.Rows {
		row := &r.Rows[i]
		var cells []string
		if files {
			cells = append(cells, strconv.Itoa(int(row.Thread.File)+1))
		}
		if processes {
			cells = append(cells, strconv.Itoa(int(row.Thread.Process)))
		}
		if r.PerThread {
			cells = append(cells, strconv.Itoa(int(row.Thread.Thread)))
		}
		if threadNames != nil {
			cells = append(cells, threadNames[i])
		}
		cells = append(cells, grouped(row.Count))
		if !r.OnlyCounted() {
			cells = append(cells, r.times(row, tails)...)
			if v.Histogram {
				cells = append(cells, row.histogram(first, last))
			}
		}
		if locations != nil {
			cells = append(cells, locations[i])
		}
		if v.Objects {
			cells = append(cells, symbolize.ObjectName(names, row.Func))
		}
		t.Add(append(cells, symbolize.Label(names, row.Func))...)
	}
	return t
}

// times are the cells of a row that are about durations. With tails, the totals of
// functions that calls left through a tail call are marked.
func (r *Report) times(row *Row, tails bool) []string {
	if row.Compensated != nil {
		return r.compensatedTimes(row)
	}
	total := r.duration(row.Total)
	switch {
	case row.TailExited > 0:
		total += ">"
	case tails:
		total += " " // in line with those
	}
	cells := []string{r.duration(row.Self), percent(row.Self, r.Self), total}
	if row.onlyPruned() {
		cells[0], cells[1] = "-", "-"
	}
	if !row.timed() {
		return append(cells, "-", "-", "-", "-", "-", "-")
	}
	about := ""
	if row.Approximate {
		about = "~"
	}
	return append(cells, r.format(row.Min),
		about+r.format(row.P50), about+r.format(row.P90), about+r.format(row.P99), about+r.format(row.P999),
		r.format(row.Max))
}

// marksTails reports whether any row that is shown has calls that left through a tail call.
func (r *Report) marksTails() bool {
	for i := range r.Rows {
		if r.Rows[i].TailExited > 0 {
			return true
		}
	}
	return false
}

// locations says where the function of each row is; nil when that is not known of
// any.
func (r *Report) locations(names symbolize.Names) []string {
	known := false
	list := make([]string, len(r.Rows))
	for i := range r.Rows {
		list[i] = symbolize.Location(names, r.Rows[i].Func)
		known = known || isPlace(list[i])
	}
	if !known {
		return nil
	}
	return list
}

// isPlace tells a file and line from the phrases that stand in for them.
func isPlace(location string) bool {
	return location != "(unknown)" && location != "<invalid>:0:0"
}

// location is where a function is, for programs: "" when that is not known.
func location(names symbolize.Names, id reader.FuncID) string {
	if l := symbolize.Location(names, id); isPlace(l) {
		return l
	}
	return ""
}

// manyThreads reports whether rows of threads need the file or the process to be
// told apart.
func (r *Report) manyThreads() (files, processes bool) {
	if !r.PerThread {
		return false, false
	}
	for i := range r.Rows {
		a, b := r.Rows[0].Thread, r.Rows[i].Thread
		files = files || a.File != b.File
		processes = processes || a.Process != b.Process
	}
	return files, processes
}

// threadNames are the names of the rows' threads; nil when none has one.
func (r *Report) threadNames() []string {
	if !r.PerThread || r.ThreadName == nil {
		return nil
	}
	known := false
	list := make([]string, len(r.Rows))
	for i := range r.Rows {
		list[i] = r.ThreadName(r.Rows[i].Thread)
		known = known || list[i] != ""
	}
	if !known {
		return nil
	}
	return list
}

// notes are the lines below a table: what its reader must know to trust it.
func (r *Report) notes(v View) []string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	// The mark ~ is explained where it is shown; the others are about all calls.
	var approximate, coarse uint64
	for i := range r.Rows {
		switch {
		case r.Cost != nil: // there are no quantiles
		case r.Rows[i].Coarse:
			coarse++
		case r.Rows[i].Approximate:
			approximate++
		}
	}
	if first, last := r.octaves(); v.Histogram && last >= first {
		add("histogram: durations from %s to %s, twice as long with each character; heights are relative to the highest of the row",
			r.format(octaveStart(first)), r.format(octaveEnd(last)))
	}
	if approximate > 0 {
		add("~: approximate, at most %.1f %% off, in %s %s of many different durations; --exact spends the memory to tell them",
			100*quantile.RelativeError, grouped(approximate), plural(approximate, "row", "rows"))
	}
	if coarse > 0 {
		add("~: approximate, at most a third off, in %s %s of a profile, which has durations by powers of two",
			grouped(coarse), plural(coarse, "row", "rows"))
	}
	if r.OnlyCounted() {
		add("the calls were only counted: nothing is known of their times")
		return notes
	}
	notes = append(notes, r.costNotes()...)
	if r.Untimed > 0 {
		add("%s %s only counted: %s part of count alone",
			grouped(r.Untimed), plural(r.Untimed, "call was", "calls were"), plural(r.Untimed, "it is", "they are"))
	}
	if n := r.Pruned; n > 0 {
		add("%s %s dropped by the recorder: where %s of a function that calls itself, total counts the time more than once",
			grouped(n), plural(n, "call was", "calls were"), plural(n, "it is", "they are"))
	}
	if open := r.Open; open > 0 {
		add("%s %s still open at the end: %s time is part of self and total, but not of count, min, max and quantiles",
			grouped(open), plural(open, "call was", "calls were"), plural(open, "its", "their"))
	}
	if tail := r.TailExited; tail > 0 {
		mark := ""
		if r.Cost == nil && r.marksTails() {
			mark = ">: "
		}
		add("%s%s %s through a tail call: %s time ends there, and the function called is not part of it",
			mark, grouped(tail), plural(tail, "call left", "calls left"), plural(tail, "its", "their"))
	}
	if left := r.Left; left > 0 {
		add("%s %s left by an exception or longjmp", grouped(left), plural(left, "call was", "calls were"))
	}
	if inferred := r.Inferred; inferred > 0 {
		add("%s %s no exit of %s own recorded, and %s by that of an outer call",
			grouped(inferred), plural(inferred, "call has", "calls have"), plural(inferred, "its", "their"),
			plural(inferred, "was ended", "were ended"))
	}
	if !r.Clock.Known() {
		add("the trace does not say how many ticks its clock makes in a second: times are in ticks")
	}
	return notes
}

func (r *Report) writeCSV(w io.Writer, v View, names symbolize.Names) error {
	unit := "_" + r.Clock.Unit()
	threadNames := r.threadNames()
	titles := []string{"id", "function", "location", "count", "self" + unit, "share", "total" + unit, "sum" + unit,
		"min" + unit, "p50" + unit, "p90" + unit, "p99" + unit, "p99.9" + unit, "max" + unit,
		"approximate", "inferred", "tail_exited", "open"}
	if r.Cost != nil {
		for _, title := range []string{"self_low", "self_high", "total_low", "total_high", "recorded_self", "recorded_total"} {
			titles = append(titles, title+unit)
		}
	}
	if r.Pruned > 0 {
		titles = append(titles, "pruned")
	}
	if r.PerThread {
		own := []string{"file", "process", "thread"}
		if threadNames != nil {
			own = append(own, "thread_name")
		}
		titles = append(own, titles...)
	}
	t := new(texttab.Table)
	if v.Objects {
		titles = append(titles, "object")
	}
	for _, title := range titles {
		t.Columns = append(t.Columns, texttab.Column{Title: title})
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		var cells []string
		if r.PerThread {
			cells = append(cells, strconv.Itoa(int(row.Thread.File)+1),
				strconv.Itoa(int(row.Thread.Process)), strconv.Itoa(int(row.Thread.Thread)))
		}
		if threadNames != nil {
			cells = append(cells, threadNames[i])
		}
		cells = append(cells, strconv.Itoa(int(row.Func)), symbolize.Label(names, row.Func), location(names, row.Func),
			strconv.FormatUint(row.Count, 10))
		if row.onlyPruned() {
			cells = append(cells, "", "")
		} else {
			cells = append(cells, r.number(row.Self), strconv.FormatFloat(share(row.Self, r.Self), 'f', 6, 64))
		}
		cells = append(cells, r.number(row.Total), r.number(row.Sum))
		for _, d := range []uint64{row.Min, row.P50, row.P90, row.P99, row.P999, row.Max} {
			cell := ""
			if row.timed() {
				cell = strconv.FormatUint(r.Clock.Nanos(d), 10)
			}
			cells = append(cells, cell)
		}
		cells = append(cells, strconv.FormatBool(row.Approximate), strconv.FormatUint(row.Inferred, 10),
			strconv.FormatUint(row.TailExited, 10), strconv.FormatUint(row.Open, 10))
		if c := row.Compensated; c != nil {
			cells = append(cells, r.number(c.SelfLow), r.number(c.SelfHigh), r.number(c.TotalLow), r.number(c.TotalHigh),
				r.number(c.RecordedSelf), r.number(c.RecordedTotal))
		}
		if r.Pruned > 0 {
			cells = append(cells, strconv.FormatUint(row.Pruned, 10))
		}
		if v.Objects {
			cells = append(cells, symbolize.ObjectName(names, row.Func))
		}
		t.Add(cells...)
	}
	return t.WriteCSV(w)
}

// format gives a duration in the unit that suits it; the number alone when
// there is none.
func (r *Report) format(ticks uint64) string {
	if !r.Clock.Known() {
		return grouped(ticks)
	}
	return groupDigits(r.Clock.Format(ticks))
}

// duration is format for a sum.
func (r *Report) duration(s quantile.Sum) string {
	if s.Hi == 0 {
		return r.format(s.Lo)
	}
	if !r.Clock.Known() {
		return groupDigits(s.Big().String())
	}
	// Many years: whole seconds will do.
	return groupDigits(new(big.Int).Div(s.Big(), new(big.Int).SetUint64(r.Clock.Frequency)).String() + "s")
}

// number gives a sum in whole nanoseconds, rounded to the nearest, or in ticks.
func (r *Report) number(s quantile.Sum) string {
	if !r.Clock.Known() {
		return s.Big().String()
	}
	if s.Hi == 0 && s.Lo < math.MaxUint64/nanosPerSecond {
		return strconv.FormatUint(r.Clock.Nanos(s.Lo), 10)
	}
	f := new(big.Int).SetUint64(r.Clock.Frequency)
	n, rest := new(big.Int).QuoRem(s.Big().Mul(s.Big(), big.NewInt(nanosPerSecond)), f, new(big.Int))
	// A tie goes to the even number, as clock.Clock has it.
	if c := rest.Lsh(rest, 1).Cmp(f); c > 0 || c == 0 && n.Bit(0) == 1 {
		n.Add(n, big.NewInt(1))
	}
	return n.String()
}

const nanosPerSecond = 1_000_000_000

func share(part, whole quantile.Sum) float64 {
	if whole == (quantile.Sum{}) {
		return 0
	}
	return part.Float64() / whole.Float64()
}

func percent(part, whole quantile.Sum) string {
	return strconv.FormatFloat(100*share(part, whole), 'f', 2, 64) + "%"
}

// grouped is a number with commas between groups of three digits.
func grouped(n uint64) string { return groupDigits(strconv.FormatUint(n, 10)) }

// groupDigits puts commas into the digits that s starts with.
func groupDigits(s string) string {
	n := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if n < 0 {
		n = len(s)
	}
	for at := n - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

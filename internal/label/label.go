// Package label has the words by which reports call threads and call paths.
package label

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Threads names threads.
type Threads struct {
	Name  func(reader.Thread) string // "" where a thread has none; may be nil
	Files []string                   // of the traces, shown where there are several
}

// Of is PROCESS/THREAD, with the thread's name and file as far as there are such.
func (l *Threads) Of(t reader.Thread) string {
	text := fmt.Sprintf("%d/%d", t.Process, t.Thread)
	if name := l.NameOf(t); name != "" {
		text += " " + texttab.Printable(name)
	}
	if len(l.Files) > 1 {
		text += " of " + texttab.Printable(l.Files[t.File])
	}
	return text
}

// NameOf is the name of a thread, "" where it has none.
func (l *Threads) NameOf(t reader.Thread) string {
	if l.Name == nil {
		return ""
	}
	return l.Name(t)
}

// longestName is how many characters of a name tables show.
const longestName = 80

// Func is the name of a function, cut off if it is very long, as names of templates
// are.
func Func(names symbolize.Names, fn reader.FuncID) string {
	name := texttab.Printable(symbolize.Label(names, fn))
	if runes := []rune(name); len(runes) > longestName {
		return string(runes[:longestName-3]) + "..."
	}
	return name
}

// Path names the functions of a path, the outermost first. Of more than limit, if it
// is not 0, the outer ones are left out.
func Path(names symbolize.Names, path []reader.FuncID, limit int) string {
	if len(path) == 0 {
		return "(no function)"
	}
	var parts []string
	if limit > 0 && len(path) > limit {
		path = path[len(path)-limit:]
		parts = append(parts, "...")
	}
	for _, fn := range path {
		parts = append(parts, Func(names, fn))
	}
	return strings.Join(parts, " > ")
}

// Count is a number with thousands separators, and what there are so many of.
func Count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Grouped(n) + " " + many
}

// Grouped is a number with thousands separators.
func Grouped(n uint64) string {
	return GroupedDigits(strconv.FormatUint(n, 10))
}

// GroupedDigits puts thousands separators into the digits that s begins with.
func GroupedDigits(s string) string {
	digits := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if digits < 0 {
		digits = len(s)
	}
	for i := digits - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Ticks formats a duration that may have a fraction or a sign, to the nearest tick.
func Ticks(c reader.Clock, ticks float64) string {
	ticks = math.Round(ticks)
	if ticks < 0 {
		return "-" + c.Format(uint64(-ticks))
	}
	return c.Format(uint64(ticks))
}

// Bytes is a size in the unit that suits it.
func Bytes(n uint64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return strconv.FormatUint(n, 10) + " B"
	}
	f, unit := float64(n)/1000, 0
	for f >= 999.95 && unit < len(units)-1 {
		f, unit = f/1000, unit+1
	}
	return fmt.Sprintf("%.1f %cB", f, units[unit])
}

// Percent is a part of all; "-" where there is nothing.
func Percent(part, all float64) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*part/all)
}

// deepest is how many levels of a tree are told by indentation. A line of spaces for each of
// a recursion's calls would fill the disk with the square of its depth.
const deepest = 100

// Indent is what stands before a name so far down in a tree: two spaces for each level, and
// for deep ones the level as a number.
func Indent(level int) string {
	if level <= deepest {
		return strings.Repeat("  ", level)
	}
	return fmt.Sprintf("%s[%d] ", strings.Repeat("  ", deepest), level)
}

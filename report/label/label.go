// Package label formats names of threads and call paths, and numbers, for reports.
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
	Name  func(reader.Thread) string // "" if a thread has none; may be nil
	Files []string                   // of the traces, shown if there are several
}

// Of returns PROCESS/THREAD, with the thread's name and file if it has them.
func (l *Threads) Of(t reader.Thread) string {
	text := fmt.Sprintf("%d/%d", t.Process, t.Thread)
	if n := t.Fiber(); n > 0 {
		text = fmt.Sprintf("%d/fiber %d", t.Process, n)
	} else if name := l.NameOf(t); name != "" {
		text += " " + texttab.Printable(name)
	}
	if len(l.Files) > 1 {
		text += " of " + texttab.Printable(l.Files[t.File])
	}
	return text
}

// NameOf returns the name of a thread, or "".
func (l *Threads) NameOf(t reader.Thread) string {
	if l.Name == nil {
		return ""
	}
	return l.Name(t)
}

// longestName is the number of characters of a name in tables.
const longestName = 80

// Func returns the name of a function, cut if it is very long, as some template names are.
func Func(names symbolize.Names, fn reader.FuncID) string {
	name := texttab.Printable(symbolize.Label(names, fn))
	if runes := []rune(name); len(runes) > longestName {
		return string(runes[:longestName-3]) + "..."
	}
	return name
}

// Locks names locks that are identified by their addresses. The zero value knows only addresses.
type Locks struct {
	// Variable returns the name of the variable at an address of the process of a file, or "".
	Variable func(file int32, address uint64) string
	// Member returns the class and the member that are the lock which a function takes, or "".
	Member func(taker reader.FuncID) string
}

// Name returns the name of a lock: its variable, or else its class and member or the function that took it
// first, if that is not 0, and its address.
func (l *Locks) Name(names symbolize.Names, file int32, taker reader.FuncID, address uint64) string {
	at := "0x" + strconv.FormatUint(address, 16)
	if name := l.VariableAt(file, address); name != "" {
		return name
	}
	if name := l.MemberOf(taker); name != "" {
		return name + ": " + at
	}
	if taker != 0 && l.Variable != nil {
		return Func(names, taker) + ": " + at
	}
	return at
}

// VariableAt is Variable, or "".
func (l *Locks) VariableAt(file int32, address uint64) string {
	if l.Variable == nil {
		return ""
	}
	return l.Variable(file, address)
}

// MemberOf is Member, or "".
func (l *Locks) MemberOf(taker reader.FuncID) string {
	if l.Member == nil || taker == 0 {
		return ""
	}
	return l.Member(taker)
}

// Path returns the functions of a path, the outermost first. If there are more than limit,
// and it is not 0, the outer ones are omitted.
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

// IsAddress reports whether the value of an argument is in the range of the addresses of programs, libraries
// and stacks. It most likely is an address.
func IsAddress(v uint64) bool {
	const least, end = 1 << 42, 1 << 47
	return v >= least && v < end
}

// Argument returns the value of an argument, in hexadecimal if it is an address.
func Argument(v uint64) string {
	if IsAddress(v) {
		return fmt.Sprintf("%#x", v)
	}
	return strconv.FormatUint(v, 10)
}

// Count returns a number with thousands separators, and its noun.
func Count(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Grouped(n) + " " + many
}

// Grouped returns a number with thousands separators.
func Grouped(n uint64) string {
	return GroupedDigits(strconv.FormatUint(n, 10))
}

// GroupedDigits adds thousands separators to the digits at the start of s.
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

// Bytes returns a size in a suitable unit.
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

// Percent returns a part of all, or "-" if all is 0.
func Percent(part, all float64) string {
	if all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*part/all)
}

// deepest is the number of tree levels that are indented. Otherwise, the size of the output
// would grow with the square of the depth of a recursion.
const deepest = 100

// Indent returns the prefix of a name in a tree: two spaces for each level, and for deep
// levels the level as a number.
func Indent(level int) string {
	if level <= deepest {
		return strings.Repeat("  ", level)
	}
	return fmt.Sprintf("%s[%d] ", strings.Repeat("  ", deepest), level)
}

// ShortExponent removes the leading zero of a negative exponent: 5e-06 becomes 5e-6.
func ShortExponent(number string) string { return strings.Replace(number, "e-0", "e-", 1) }

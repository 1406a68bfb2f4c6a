package tui

import (
	"fmt"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
)

// short formats a number with three digits: 999, 1.23k, 45.6M.
func short(v float64, units ...string) string {
	unit := 0
	for v >= 999.5 && unit < len(units)-1 {
		v /= 1000
		unit++
	}
	switch {
	case v >= 99.95, v == 0, unit == 0 && v == float64(int64(v)):
		return fmt.Sprintf("%.0f%s", v, units[unit])
	case v >= 9.995:
		return fmt.Sprintf("%.1f%s", v, units[unit])
	}
	return fmt.Sprintf("%.2f%s", v, units[unit])
}

func shortCount(v float64) string { return short(v, "", "k", "M", "G", "T", "P") }

// shortTime formats ticks.
func (d *Data) shortTime(ticks float64) string {
	if d.Clock.Frequency == 0 || ticks == 0 {
		return shortCount(ticks)
	}
	ns := ticks * 1e9 / float64(d.Clock.Frequency)
	if ns > 0 && ns < 1 {
		return "<1ns"
	}
	return short(ns, "ns", "us", "ms", "s", "ks", "Ms")
}

// perSecond divides by the time that was observed.
func (d *Data) perSecond(v uint64) float64 {
	if d.Observed == 0 || d.Clock.Frequency == 0 {
		return float64(v)
	}
	return float64(v) * float64(d.Clock.Frequency) / float64(d.Observed)
}

// cut makes text a single line of at most width cells that cannot control a terminal.
func cut(text string, width int) string {
	text = texttab.Printable(text)
	if len(text) <= width || texttab.Width(text) <= width {
		return text
	}
	room, end := width-1, 0
	for i, r := range text {
		if room -= texttab.Width(string(r)); room < 0 {
			break
		}
		end = i + len(string(r))
	}
	if width <= 0 {
		return ""
	}
	return text[:end] + "…"
}

func right(text string, width int) string {
	return strings.Repeat(" ", max(0, width-texttab.Width(text))) + text
}

func left(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-texttab.Width(text)))
}

// bar draws part of all in width cells. Something is always visible.
func bar(part, all uint64, width int) string {
	const eighths = "▏▎▍▌▋▊▉"
	if all == 0 || part == 0 {
		return ""
	}
	n := max(1, int(float64(part)/float64(all)*float64(width)*8))
	text := strings.Repeat("█", n/8)
	if n%8 > 0 {
		text += string([]rune(eighths)[n%8-1])
	}
	return text
}

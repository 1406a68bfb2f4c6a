package account

import "math"

// bars are characters with heights from one eighth to eight eighths.
const bars = "▁▂▃▄▅▆▇█"

// octaves returns the first and the last octave of durations in any row. If there are none,
// last is less than first.
func (r *Report) octaves() (first, last int) {
	first, last = math.MaxInt, -1
	for i := range r.Rows {
		for o, n := range r.Rows[i].Octaves {
			if n > 0 {
				first, last = min(first, o), max(last, o)
			}
		}
	}
	return first, last
}

// octaveStart is the shortest duration of an octave.
func octaveStart(o int) uint64 {
	if o == 0 {
		return 0
	}
	return 1 << (o - 1)
}

// octaveEnd is the longest duration of an octave.
func octaveEnd(o int) uint64 { return 1<<o - 1 }

// histogram draws the counts of the octaves from first to last, one character for each. The
// lowest bar stands for any count below an eighth of the highest, so that every count is
// visible.
func (row *Row) histogram(first, last int) string {
	var highest uint64
	for _, n := range row.Octaves {
		highest = max(highest, n)
	}
	levels := []rune(bars)
	var line []rune
	for o := first; o <= last; o++ {
		switch {
		case o >= len(row.Octaves) || row.Octaves[o] == 0:
			line = append(line, ' ')
		default:
			level := int(float64(row.Octaves[o]) / float64(highest) * float64(len(levels)))
			line = append(line, levels[min(level, len(levels)-1)])
		}
	}
	return string(line)
}

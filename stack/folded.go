package stack

import (
	"bufio"
	"io"
	"strconv"

	"github.com/xray-tools/xray/symbolize"
)

// FoldedView selects what folded stacks show.
type FoldedView struct {
	Metric Metric
	// Inclusive writes the total value of a path, including the paths below it. Flame graph
	// tools need self values: they add them up.
	Inclusive bool
}

// maxFrames is the maximum number of frames in a folded line. A line repeats all callers,
// so the size of the output grows with the square of the depth of a recursion.
const maxFrames = 1000

// deeper is the frame that stands for all deeper frames.
const deeper = "[deeper]"

// WriteFolded writes a line for each path: its functions from the outermost on, joined by
// semicolons, a space and an integer: nanoseconds (ticks if the frequency is unknown) or
// calls. If threads are kept apart, the first frame is thread_ and the thread. Semicolons
// in names become colons. Lines with the value 0 are omitted. In paths of more than a
// thousand functions, one frame stands for the deeper ones.
//
// It returns the error of w.
func (r *Report) WriteFolded(w io.Writer, names symbolize.Names, v FoldedView) error {
	b := bufio.NewWriter(w)
	l := newLabels(names, foldable)
	var weights []uint64
	for t := range r.Trees() {
		weights = v.Metric.weights(weights, t)
		line := newFoldedLine(t)
		var rest uint64 // of the paths below the last line that was cut
		for i := range t.Frames {
			f := &t.Frames[i]
			value := v.Metric.own(f)
			if v.Inclusive {
				value = weights[i]
			}
			if f.Depth == maxFrames {
				// Siblings at the limit share a line.
				line.push(maxFrames, deeper)
			}
			if f.Depth >= maxFrames {
				if !v.Inclusive || f.Depth == maxFrames {
					rest = addSaturating(rest, value)
				}
				if i+1 == len(t.Frames) || t.Frames[i+1].Depth < maxFrames {
					line.write(b, v.Metric.units(r.Clock, rest))
					rest = 0
				}
				continue
			}
			line.push(f.Depth, l.of(f.Func))
			line.write(b, v.Metric.units(r.Clock, value))
		}
	}
	return b.Flush()
}

// foldedLine is the line of a path, without its value.
type foldedLine struct {
	text []byte
	ends []int // of the frames in text; the first is the prefix
}

func newFoldedLine(t *Tree) *foldedLine {
	l := &foldedLine{}
	if t.Label != "" {
		l.text = append(append(l.text, "thread_"...), t.Label...)
	}
	l.ends = []int{len(l.text)}
	return l
}

// push makes name the last frame, after depth others.
func (l *foldedLine) push(depth int, name string) {
	l.ends = l.ends[:depth+1]
	l.text = l.text[:l.ends[depth]]
	if len(l.text) > 0 {
		l.text = append(l.text, ';')
	}
	l.text = append(l.text, name...)
	l.ends = append(l.ends, len(l.text))
}

func (l *foldedLine) write(b *bufio.Writer, value uint64) {
	if value == 0 {
		return
	}
	b.Write(l.text)
	b.WriteByte(' ')
	b.Write(strconv.AppendUint(b.AvailableBuffer(), value, 10))
	b.WriteByte('\n')
}

package stack

import (
	"fmt"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// Metric is the weight of stacks.
type Metric uint8

const (
	Time    Metric = iota // time: nanoseconds, or ticks if the frequency is unknown
	Count                 // number of calls
	CPU                   // CPU time; this and the following need calls.Options.OffCPU
	Blocked               // time in which the thread slept or waited for something
	Queued                // time in which the thread waited for a processor
)

var metricNames = [...]string{"time", "count", "cpu", "blocked", "queued"}

// metricWords complete the sentence that no call path has any of a metric.
var metricWords = [...]string{"time", "calls", "CPU time", "blocked time", "time in the run queue"}

// metricTitles are the titles of flame graphs.
var metricTitles = [...]string{
	"Time by call path", "Calls by call path", "CPU time by call path",
	"Blocked time by call path", "Time in the run queue by call path",
}

// Metrics returns the names of all metrics.
func Metrics() []string { return metricNames[:] }

// NeedsOffCPU reports whether the metric needs calls.Options.OffCPU.
func (m Metric) NeedsOffCPU() bool { return m >= CPU }

// String returns the name that [ParseMetric] takes.
func (m Metric) String() string { return metricNames[m] }

// ParseMetric reads the name of a metric.
func ParseMetric(name string) (Metric, error) {
	for i, s := range metricNames {
		if s == name {
			return Metric(i), nil
		}
	}
	return 0, fmt.Errorf("unknown metric %q: use one of %s", name, strings.Join(metricNames[:], ", "))
}

// own returns the weight of a path without the paths below it: its self time or a part of it
// in ticks, or its calls. Open calls count.
func (m Metric) own(f *Frame) uint64 {
	self := addSaturating(f.Self, f.OpenSelf)
	switch m {
	case Count:
		return f.Count + f.Open
	case CPU:
		return self - min(self, f.Off.Sum())
	case Blocked:
		return f.Off.Blocked
	case Queued:
		return f.Off.Queued
	}
	return self
}

// weights returns, for every frame of t, the weight of the path with all paths below it.
func (m Metric) weights(dst []uint64, t *Tree) []uint64 {
	dst = dst[:0]
	for i := range t.Frames {
		dst = append(dst, m.own(&t.Frames[i]))
	}
	for i := len(dst) - 1; i >= 0; i-- {
		if p := t.Frames[i].Parent; p >= 0 {
			dst[p] = addSaturating(dst[p], dst[i])
		}
	}
	return dst
}

// units converts a weight to the number that is printed without a unit.
func (m Metric) units(c reader.Clock, v uint64) uint64 {
	if m == Count {
		return v
	}
	return c.Nanos(v)
}

// format writes a weight with its unit.
func (m Metric) format(c reader.Clock, v uint64) string {
	if m == Count {
		return label.Count(v, "call", "calls")
	}
	return label.GroupedDigits(c.Format(v))
}

func share(v, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return 100 * float64(v) / float64(of)
}

// labels caches names, because looking them up is slow.
type labels struct {
	names symbolize.Names
	text  map[reader.FuncID]string
	clean func(string) string
}

func newLabels(names symbolize.Names, clean func(string) string) *labels {
	return &labels{names, make(map[reader.FuncID]string), clean}
}

func (l *labels) of(id reader.FuncID) string {
	s, ok := l.text[id]
	if !ok {
		s = l.clean(symbolize.Label(l.names, id))
		l.text[id] = s
	}
	return s
}

// foldable makes a name safe for a folded line, in which semicolons separate frames and the
// last space precedes the value.
func foldable(name string) string {
	return strings.TrimSpace(strings.ReplaceAll(texttab.Printable(name), ";", ":"))
}

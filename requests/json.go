package requests

import (
	"encoding/json"
	"io"

	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// jsonReport is what WriteJSON writes. Times are in Unit; means may have decimals.
type jsonReport struct {
	Unit      string         `json:"unit"` // ns or ticks
	Requests  int            `json:"requests"`
	Segments  int            `json:"segments"`
	Threads   int            `json:"threads"`
	Cut       int            `json:"cut"`    // left out
	Every     uint64         `json:"every"`  // only one key in so many
	Reused    int            `json:"reused"` // keys
	Outside   uint64         `json:"outside"`
	Pause     uint64         `json:"pause"` // between requests of a key
	Durations jsonQuantiles  `json:"durations"`
	Classes   []jsonClass    `json:"classes"`
	Steps     []jsonStepRow  `json:"steps"`
	Slow      jsonComparison `json:"slow"`
	Shown     []jsonRequest  `json:"shown"`
}

type jsonQuantiles struct {
	Count       uint64 `json:"count"`
	Mean        uint64 `json:"mean"`
	P50         uint64 `json:"p50"`
	P90         uint64 `json:"p90"`
	P99         uint64 `json:"p99"`
	Max         uint64 `json:"max"`
	Approximate bool   `json:"approximate"`
}

type jsonClass struct {
	Class string `json:"class"`
	Slow  int    `json:"slow"`
	jsonQuantiles
}

type jsonStep struct {
	Kind string `json:"kind"` // run, queue or handoff
	From string `json:"from,omitempty"`
	To   string `json:"to"` // the function that runs, or comes next
}

type jsonStepRow struct {
	jsonStep
	Time uint64 `json:"time"`
	jsonQuantiles
}

type jsonComparison struct {
	Rule         string           `json:"rule"`
	Slow         int              `json:"slow"`
	Ordinary     int              `json:"ordinary"`
	SlowMean     float64          `json:"slow_mean"`
	OrdinaryMean float64          `json:"ordinary_mean"`
	Steps        []jsonDifference `json:"steps"`
}

type jsonDifference struct {
	jsonStep
	SlowMean     float64 `json:"slow_mean"`
	OrdinaryMean float64 `json:"ordinary_mean"`
	Dominates    int     `json:"dominates"`
}

type jsonRequest struct {
	Key      string        `json:"key"`
	Number   int           `json:"number"`
	Class    string        `json:"class"`
	Start    uint64        `json:"start"` // since the start of the trace
	Duration uint64        `json:"duration"`
	Segments []jsonSegment `json:"segments"`
	Path     []jsonPart    `json:"critical_path"`
}

type jsonSegment struct {
	File       int32      `json:"file"` // position on the command line, from 1
	Process    int32      `json:"process"`
	Thread     int32      `json:"thread"`
	ThreadName string     `json:"thread_name,omitempty"`
	ID         int32      `json:"id"`
	Function   string     `json:"function"`
	At         uint64     `json:"at"` // since the start of the request
	Duration   uint64     `json:"duration"`
	Calls      []jsonCall `json:"calls"` // one row for each path, callees behind their callers
}

type jsonCall struct {
	ID       int32  `json:"id"`
	Function string `json:"function"`
	Depth    int    `json:"depth"`
	At       uint64 `json:"at"`
	Calls    uint64 `json:"calls"`
	Total    uint64 `json:"total"`
	Self     uint64 `json:"self"`
}

type jsonPart struct {
	jsonStep
	At       uint64 `json:"at"`
	Duration uint64 `json:"duration"`
	Segment  int    `json:"segment"` // position in segments
}

// WriteJSON writes an object. It returns the error of w.
func (r *Report) WriteJSON(w io.Writer, names symbolize.Names, v View) error {
	j := &jsonWriter{r, names, v}
	out := jsonReport{
		Unit: r.Clock.Unit(), Requests: len(r.Requests), Segments: r.Segments, Threads: r.Threads, Cut: r.Cut, Every: r.Every,
		Reused: r.Reused, Outside: r.Outside, Pause: r.Clock.Nanos(r.Pause), Durations: j.quantiles(&r.Durations),
		Classes: []jsonClass{}, Steps: []jsonStepRow{}, Slow: j.comparison(), Shown: []jsonRequest{},
	}
	for i := range r.Classes {
		c := &r.Classes[i]
		out.Classes = append(out.Classes, jsonClass{c.Name, c.Slow, j.quantiles(&c.Quantiles)})
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		out.Steps = append(out.Steps, jsonStepRow{j.step(s.Step), j.sum(s.Time), j.quantiles(&s.Quantiles)})
	}
	for _, q := range r.Shown {
		out.Shown = append(out.Shown, j.request(q))
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(out)
}

type jsonWriter struct {
	r     *Report
	names symbolize.Names
	v     View
}

func (j *jsonWriter) quantiles(q *Quantiles) jsonQuantiles {
	n := j.r.Clock.Nanos
	return jsonQuantiles{q.Count, n(q.Mean), n(q.P50), n(q.P90), n(q.P99), n(q.Max), q.Approximate}
}

func (j *jsonWriter) sum(s quantile.Sum) uint64 {
	if s.Hi > 0 {
		return ^uint64(0)
	}
	return j.r.Clock.Nanos(s.Lo)
}

func (j *jsonWriter) function(id reader.FuncID) string {
	if id == 0 {
		return ""
	}
	return symbolize.Label(j.names, id)
}

func (j *jsonWriter) step(s Step) jsonStep {
	return jsonStep{s.Kind.String(), j.function(s.From), j.function(s.To)}
}

// mean converts a mean.
func (j *jsonWriter) mean(ticks float64) float64 {
	if !j.r.Clock.Known() {
		return ticks
	}
	return ticks * 1e9 / float64(j.r.Clock.Frequency)
}

func (j *jsonWriter) comparison() jsonComparison {
	c := &j.r.Slow
	out := jsonComparison{c.Rule, c.Slow, c.Ordinary, j.mean(c.SlowMean), j.mean(c.OrdinaryMean), []jsonDifference{}}
	for i := range c.Steps {
		s := &c.Steps[i]
		out.Steps = append(out.Steps, jsonDifference{j.step(s.Step), j.mean(s.SlowMean), j.mean(s.OrdinaryMean), s.Dominates})
	}
	return out
}

func (j *jsonWriter) request(q *Request) jsonRequest {
	n := j.r.Clock.Nanos
	out := jsonRequest{Key: q.Key, Number: q.Number, Class: q.Class, Start: n(q.Start - j.v.Base), Duration: n(q.Duration())}
	for i := range q.Segments {
		s := &q.Segments[i]
		segment := jsonSegment{
			File: s.Thread.File + 1, Process: s.Thread.Process, Thread: s.Thread.Thread, ThreadName: j.v.Threads.NameOf(s.Thread),
			ID: int32(s.Func), Function: j.function(s.Func), At: n(s.Start - q.Start), Duration: n(s.End - s.Start), Calls: []jsonCall{},
		}
		if j.v.Trees != nil {
			for _, c := range j.v.Trees.Of(s) {
				segment.Calls = append(segment.Calls, jsonCall{
					int32(c.Func), j.function(c.Func), c.Depth, n(c.First - q.Start), c.Calls, n(c.Total), n(c.Self),
				})
			}
		}
		out.Segments = append(out.Segments, segment)
	}
	for _, p := range q.Path() {
		out.Path = append(out.Path, jsonPart{j.step(p.Step), n(p.Start - q.Start), n(p.End - p.Start), p.Segment})
	}
	return out
}

package account

import (
	"bufio"
	"encoding/json"
	"io"

	"github.com/xray-tools/xray/internal/probecost"
	"github.com/xray-tools/xray/internal/quantile"
	"github.com/xray-tools/xray/symbolize"
)

// jsonReport is the head of what [Report.Write] writes as JSON; rows follow it
// in the same object. Numbers beyond 2^53 are written in full.
type jsonReport struct {
	Unit      string `json:"unit"`      // of all times: "ns" or "ticks"
	Frequency uint64 `json:"frequency"` // ticks a second; 0 when unknown
	Functions int    `json:"functions"` // also those that are not shown
	Calls     uint64 `json:"calls"`     // likewise
	// Self is the time that shares are of.
	Self          json.Number `json:"self"`
	RelativeError float64     `json:"relative_error"` // of approximate quantiles, at most
	ProbeCost     *jsonCost   `json:"probe_cost,omitempty"`
}

// jsonCost is what was taken out of times for each call.
type jsonCost struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// jsonRow is one element of "rows". Min, Max and the quantiles are null when no
// call that was recorded has ended, and Self and Share when no call was recorded.
type jsonRow struct {
	*jsonThread
	ID          int32        `json:"id"`
	Function    string       `json:"function"`
	Location    string       `json:"location"`
	Count       uint64       `json:"count"`
	Self        *json.Number `json:"self"`
	Share       *float64     `json:"share"` // of the self time of all functions, 0 to 1
	Total       json.Number  `json:"total"`
	Sum         json.Number  `json:"sum"`
	Min         *uint64      `json:"min"`
	P50         *uint64      `json:"p50"`
	P90         *uint64      `json:"p90"`
	P99         *uint64      `json:"p99"`
	P999        *uint64      `json:"p99.9"`
	Max         *uint64      `json:"max"`
	Approximate bool         `json:"approximate"`
	Inferred    uint64       `json:"inferred"`
	Left        uint64       `json:"left,omitempty"`
	TailExited  uint64       `json:"tail_exited"`
	Open        uint64       `json:"open"`
	Pruned      uint64       `json:"pruned,omitempty"`
	Histogram   []jsonOctave `json:"histogram"`
	*jsonCompensated
}

// jsonCompensated is in rows whose self and total are without the cost of recording.
type jsonCompensated struct {
	SelfLow       json.Number `json:"self_low"`
	SelfHigh      json.Number `json:"self_high"`
	TotalLow      json.Number `json:"total_low"`
	TotalHigh     json.Number `json:"total_high"`
	RecordedSelf  json.Number `json:"recorded_self"`
	RecordedTotal json.Number `json:"recorded_total"`
}

// jsonThread is in rows of single threads only.
type jsonThread struct {
	File    int32  `json:"file"` // position on the command line, from 1
	Process int32  `json:"process"`
	Thread  int32  `json:"thread"`
	Name    string `json:"thread_name,omitempty"`
}

// jsonOctave counts the durations from From to To, both included.
type jsonOctave struct {
	From  uint64 `json:"from"`
	To    uint64 `json:"to"`
	Count uint64 `json:"count"`
}

func (r *Report) writeJSON(w io.Writer, names symbolize.Names) error {
	out := bufio.NewWriter(w)
	top := jsonReport{
		Unit: r.Clock.Unit(), Frequency: r.Clock.Frequency, Functions: r.Functions, Calls: r.Calls,
		Self: json.Number(r.number(r.Self)), RelativeError: r.relativeError(),
	}
	if r.Cost != nil {
		top.ProbeCost = &jsonCost{probecost.PerCall(r.Cost.Low, r.Clock), probecost.PerCall(r.Cost.High, r.Clock)}
	}
	head, err := json.Marshal(top)
	if err != nil {
		return err
	}
	// One row a line: readable, and easy to compare.
	out.Write(head[:len(head)-1])
	out.WriteString(",\"rows\":[")
	for i := range r.Rows {
		row, err := json.Marshal(r.jsonRow(&r.Rows[i], names))
		if err != nil {
			return err
		}
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		out.Write(row)
	}
	out.WriteString("\n]}\n")
	return out.Flush()
}

// relativeError bounds the error of approximate quantiles.
func (r *Report) relativeError() float64 {
	for i := range r.Rows {
		if r.Rows[i].Coarse {
			return quantile.OctaveError
		}
	}
	return quantile.RelativeError
}

func (r *Report) jsonRow(row *Row, names symbolize.Names) jsonRow {
	j := jsonRow{
		ID:          int32(row.Func),
		Function:    symbolize.Label(names, row.Func),
		Location:    location(names, row.Func),
		Count:       row.Count,
		Total:       json.Number(r.number(row.Total)),
		Sum:         json.Number(r.number(row.Sum)),
		Approximate: row.Approximate,
		Inferred:    row.Inferred,
		Left:        row.Left,
		TailExited:  row.TailExited,
		Open:        row.Open,
		Pruned:      row.Pruned,
		Histogram:   []jsonOctave{},
	}
	if !row.onlyPruned() {
		self, part := json.Number(r.number(row.Self)), share(row.Self, r.Self)
		j.Self, j.Share = &self, &part
	}
	if r.PerThread {
		j.jsonThread = &jsonThread{File: row.Thread.File + 1, Process: row.Thread.Process, Thread: row.Thread.Thread}
		if r.ThreadName != nil {
			j.Name = r.ThreadName(row.Thread)
		}
	}
	if c := row.Compensated; c != nil {
		number := func(s quantile.Sum) json.Number { return json.Number(r.number(s)) }
		j.jsonCompensated = &jsonCompensated{
			number(c.SelfLow), number(c.SelfHigh), number(c.TotalLow), number(c.TotalHigh), number(c.RecordedSelf), number(c.RecordedTotal),
		}
	}
	if row.timed() {
		for _, d := range []struct {
			to    **uint64
			ticks uint64
		}{{&j.Min, row.Min}, {&j.P50, row.P50}, {&j.P90, row.P90}, {&j.P99, row.P99}, {&j.P999, row.P999}, {&j.Max, row.Max}} {
			ns := r.Clock.Nanos(d.ticks)
			*d.to = &ns
		}
	}
	for o, n := range row.Octaves {
		if n > 0 {
			j.Histogram = append(j.Histogram, jsonOctave{r.Clock.Nanos(octaveStart(o)), r.Clock.Nanos(octaveEnd(o)), n})
		}
	}
	return j
}

package diff

import (
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
)

// jsonInterval is null where nothing is known. P is after Holm.
type jsonInterval struct {
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	P    float64  `json:"p"`
}

type jsonMetric struct {
	Metric   string        `json:"metric"`
	A        *float64      `json:"a"`
	B        *float64      `json:"b"`
	Change   *float64      `json:"change"`
	Interval *jsonInterval `json:"interval"`
}

type jsonReport struct {
	Unit      string       `json:"unit"` // ns or ticks
	Root      string       `json:"root"` // "" without one
	A         jsonSide     `json:"a"`
	B         jsonSide     `json:"b"`
	Resampled string       `json:"resampled"` // runs, blocks or ""
	Block     float64      `json:"block"`
	Folds     int          `json:"folds"`
	Seed      uint64       `json:"seed"`
	Whole     jsonMetric   `json:"whole"`
	Metrics   []jsonMetric `json:"metrics"` // of the root
	Changes   []jsonChange `json:"changes"`
	Rest      float64      `json:"rest"`
	Rows      []jsonRow    `json:"rows"`
	Parts     []jsonPart   `json:"decomposition"`
	Gates     []jsonGate   `json:"gates"`
	Notes     []string     `json:"notes"`
}

type jsonSide struct {
	Runs  int     `json:"runs"`
	Calls float64 `json:"calls"`
	Units int     `json:"units"`
}

type jsonChange struct {
	Kind     string        `json:"kind"`
	Function string        `json:"function"`
	Path     []string      `json:"path"`
	Paths    int           `json:"paths"`
	Amount   float64       `json:"amount"`
	Interval *jsonInterval `json:"interval"`
}

type jsonRow struct {
	Path    []string     `json:"path"`
	In      string       `json:"in"`
	Metrics []jsonMetric `json:"metrics"`
}

type jsonPart struct {
	Path   []string `json:"path"`
	Slower float64  `json:"slower"`
	More   float64  `json:"more"`
	New    float64  `json:"new"`
}

type jsonGate struct {
	Gate     string        `json:"gate"`
	Verdict  Verdict       `json:"verdict"`
	Limit    float64       `json:"limit"`
	Change   *float64      `json:"change"`
	Interval *jsonInterval `json:"interval"`
}

// finite is null for what JSON has no number for.
func finite(x float64) *float64 {
	if math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func (i *Interval) json() *jsonInterval {
	if !i.Known {
		return nil
	}
	return &jsonInterval{finite(i.Low), finite(i.High), i.P}
}

func (m *Metric) json() jsonMetric {
	if m.Missing {
		return jsonMetric{Metric: m.Name}
	}
	return jsonMetric{m.Name, &m.A, &m.B, finite(change(m.A, m.B)), m.Interval.json()}
}

func metricsJSON(list []Metric) []jsonMetric {
	out := make([]jsonMetric, len(list))
	for i := range list {
		out[i] = list[i].json()
	}
	return out
}

// WriteJSON writes an object with everything, whatever a view shows. Changes of
// metrics and gates are B / A - 1, null where A is 0; intervals of metrics are of
// B - A, those of gates of their change. It returns the error of w.
func (r *Report) WriteJSON(w io.Writer) error {
	out := jsonReport{
		Unit: r.Clock.Unit(), Root: r.Root, Resampled: r.Resampled, Block: r.Block, Folds: r.Folds, Seed: r.Seed,
		A: jsonSide{r.Runs[A], r.Calls[A], r.Units[A]}, B: jsonSide{r.Runs[B], r.Calls[B], r.Units[B]},
		Whole: r.Whole.json(), Metrics: metricsJSON(r.Metrics), Rest: r.Rest,
		Changes: []jsonChange{}, Rows: []jsonRow{}, Parts: []jsonPart{}, Gates: []jsonGate{},
		Notes: append([]string{}, r.Notes...),
	}
	for i := range r.Changes {
		c := &r.Changes[i]
		j := jsonChange{c.Kind.String(), c.Function, c.Path, c.Paths, c.Amount, c.Interval.json()}
		out.Changes = append(out.Changes, j)
	}
	for i := range r.Rows {
		out.Rows = append(out.Rows, jsonRow{r.Rows[i].Path, r.Rows[i].In, metricsJSON(r.Rows[i].Metrics)})
	}
	for _, p := range r.Parts {
		out.Parts = append(out.Parts, jsonPart(p))
	}
	for i := range r.Gates {
		g := &r.Gates[i]
		out.Gates = append(out.Gates, jsonGate{g.Gate, g.Verdict, g.Limit, finite(g.Change), g.Interval.json()})
	}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(out)
}

// WriteCSV writes a line for every metric of every row, with times in the unit of
// the clock. What is not known is empty. It returns the error of w.
func (r *Report) WriteCSV(w io.Writer) error {
	t := &texttab.Table{}
	for _, name := range []string{"path", "in", "metric", "unit", "a", "b", "difference", "low", "high", "p"} {
		t.Columns = append(t.Columns, texttab.Column{Title: name})
	}
	number := func(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }
	for i := range r.Rows {
		row := &r.Rows[i]
		for _, m := range row.Metrics {
			unit := r.Clock.Unit()
			if m.Name == "calls" {
				unit = "calls"
			}
			cells := []string{strings.Join(row.Path, " > "), row.In, m.Name, unit, "", "", "", "", "", ""}
			if !m.Missing {
				copy(cells[4:], []string{number(m.A), number(m.B), number(m.Difference())})
			}
			if m.Known {
				copy(cells[7:], []string{number(m.Low), number(m.High), number(m.P)})
			}
			t.Add(cells...)
		}
	}
	return t.WriteCSV(w)
}

package why

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// The JSON form of a report. Times are in ns, or in ticks where the trace does not
// say how long one is.
type (
	reportJSON struct {
		Unit          string         `json:"unit"`
		Root          string         `json:"root"`
		Invocations   uint64         `json:"invocations"`
		Threads       int            `json:"threads"`
		Median        uint64         `json:"median"`
		P99           uint64         `json:"p99"`
		Longest       uint64         `json:"longest"`
		Slow          cohortJSON     `json:"slow"`
		Ordinary      cohortJSON     `json:"ordinary"`
		Excess        float64        `json:"excess"`
		Causes        []causeJSON    `json:"causes"`
		Rest          restJSON       `json:"rest"`
		Decomposition []partJSON     `json:"decomposition"`
		Exemplars     []exemplarJSON `json:"exemplars"`
		Warnings      []string       `json:"warnings"`
	}
	cohortJSON struct {
		Rule  string  `json:"rule"`
		Count uint64  `json:"count"`
		Mean  float64 `json:"mean"`
	}
	restJSON struct {
		Share      float64     `json:"share"`
		Coincident *holderJSON `json:"coincides_with"`
	}
	causeJSON struct {
		Rank         int               `json:"rank"`
		Kind         string            `json:"kind"`
		Function     string            `json:"function"`
		Lock         string            `json:"lock,omitempty"`
		Share        float64           `json:"share"`
		ShareLow     float64           `json:"share_low"`
		ShareHigh    float64           `json:"share_high"`
		Dominates    int               `json:"dominates"`
		Noise        float64           `json:"p_noise"`
		Most         string            `json:"most_in,omitempty"`
		Between      *[2]string        `json:"between,omitempty"`
		Paths        []pathJSON        `json:"paths"`
		WaitsOn      *holderJSON       `json:"waits_on,omitempty"`
		Associations []associationJSON `json:"associations"`
		Along        []companionJSON   `json:"along_with"`
		Exemplars    []exemplarJSON    `json:"exemplars"`
	}
	pathJSON struct {
		Path     []string   `json:"path"`
		Share    float64    `json:"share"`
		Ordinary amountJSON `json:"ordinary"`
		Slow     amountJSON `json:"slow"`
	}
	amountJSON struct {
		Calls float64  `json:"calls"`
		Self  *float64 `json:"self,omitempty"`
		Total *float64 `json:"total,omitempty"` // of new paths
	}
	holderJSON struct {
		Scope     string  `json:"scope"`
		Self      string  `json:"self"`
		Covered   float64 `json:"covered"`
		SelfShare float64 `json:"self_share,omitempty"`
		Expected  float64 `json:"expected,omitempty"`
		Ends      bool    `json:"ends_with,omitempty"`
		Cause     int     `json:"cause,omitempty"`
		Evidence  string  `json:"evidence"`
	}
	associationJSON struct {
		Kind     string `json:"kind"`
		Count    int    `json:"count"`
		Of       int    `json:"of"`
		Thread   int32  `json:"thread,omitempty"`
		Function string `json:"function,omitempty"`
		Value    uint64 `json:"value,omitempty"`
		Period   uint64 `json:"period,omitempty"`
		Text     string `json:"text,omitempty"`
	}
	companionJSON struct {
		Kind     string `json:"kind"`
		Function string `json:"function"`
	}
	partJSON struct {
		Path   []string `json:"path"`
		Lock   string   `json:"lock,omitempty"`
		Slower float64  `json:"slower"`
		More   float64  `json:"more"`
		New    float64  `json:"new"`
	}
	exemplarJSON struct {
		Thread   int32  `json:"thread"`
		Process  int32  `json:"process"`
		Start    uint64 `json:"start"`
		Duration uint64 `json:"duration"`
		Index    uint64 `json:"index"`
	}
)

// WriteJSON writes one object. Its "decomposition" lists what every path
// contributes, and adds up to "excess". Starts count from that of the trace, and
// indexes are those of Exemplar.Number. It returns the error of w.
func (r *Report) WriteJSON(w io.Writer, names symbolize.Names) error {
	j := jsonWriter{phrases{r, names}}
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false) // C++ names are full of < and >
	return e.Encode(j.report())
}

type jsonWriter struct{ phrases }

func (j jsonWriter) report() reportJSON {
	out := reportJSON{
		Unit: j.Clock.Unit(), Root: j.rootLabel(), Invocations: j.Invocations, Threads: j.Threads,
		Median: j.Clock.Nanos(j.Median), P99: j.Clock.Nanos(j.P99), Longest: j.Clock.Nanos(j.Longest),
		Slow:     cohortJSON{j.Slow.Rule, j.Slow.Count, j.time(j.Slow.Mean)},
		Ordinary: cohortJSON{j.Ordinary.Rule, j.Ordinary.Count, j.time(j.Ordinary.Mean)},
		Excess:   j.time(j.Excess), Rest: restJSON{j.Rest, j.holder(j.Meanwhile)}, Warnings: append([]string{}, j.notes()...),
		Causes: []causeJSON{}, Decomposition: []partJSON{}, Exemplars: []exemplarJSON{},
	}
	shown, _ := j.Shown(exemplarsOfCause)
	for _, e := range shown {
		out.Exemplars = append(out.Exemplars, j.exemplar(e))
	}
	for i := range j.Causes {
		out.Causes = append(out.Causes, j.cause(i))
	}
	for _, p := range j.Decomposition {
		out.Decomposition = append(out.Decomposition,
			partJSON{j.path(p.Path), address(p.Lock), j.time(p.Slower), j.time(p.More), j.time(p.New)})
	}
	return out
}

// time converts a mean, which may be a part of a tick, or negative.
func (j jsonWriter) time(ticks float64) float64 {
	if !j.Clock.Known() {
		return ticks
	}
	return ticks * 1e9 / float64(j.Clock.Frequency)
}

func (j jsonWriter) path(fns []reader.FuncID) []string {
	names := make([]string, len(fns))
	for i, fn := range fns {
		names[i] = j.label(fn)
	}
	names[0] = j.rootLabel()
	return names
}

func address(lock uint64) string {
	if lock == 0 {
		return ""
	}
	return fmt.Sprintf("%#x", lock)
}

func (j jsonWriter) cause(i int) causeJSON {
	c := &j.Causes[i]
	out := causeJSON{
		Rank: i + 1, Kind: c.Kind.String(), Function: j.label(c.Func), Lock: address(c.Lock),
		Share: c.Share, ShareLow: c.Low, ShareHigh: c.High, Dominates: c.Dominates, Noise: c.Chance,
		Associations: []associationJSON{}, Along: []companionJSON{}, Exemplars: j.exemplars(c.Exemplars),
	}
	if c.Most != 0 {
		out.Most = j.label(c.Most)
	}
	if c.Between != [2]reader.FuncID{} {
		out.Between = new([2]string)
		for i, fn := range c.Between {
			if fn != 0 {
				out.Between[i] = j.label(fn)
			}
		}
	}
	for _, p := range c.Paths {
		out.Paths = append(out.Paths, pathJSON{j.path(p.Path), p.Share,
			j.amount(&p, p.Ordinary), j.amount(&p, p.Affected)})
	}
	out.WaitsOn = j.holder(c.Holder)
	for _, a := range c.Associations {
		out.Associations = append(out.Associations, j.association(a))
	}
	for _, a := range c.Along {
		out.Along = append(out.Along, companionJSON{a.Kind.String(), j.label(a.Func)})
	}
	return out
}

func (j jsonWriter) amount(p *CausePath, a Amount) amountJSON {
	out, ticks := amountJSON{Calls: a.Calls}, j.time(a.Ticks)
	if p.Callees {
		out.Total = &ticks
	} else {
		out.Self = &ticks
	}
	return out
}

func (j jsonWriter) holder(h *Holder) *holderJSON {
	if h == nil {
		return nil
	}
	return &holderJSON{
		j.label(h.Scope), j.label(h.Self), h.Covered, h.SelfShare, h.Expected, h.Ends, h.Cause, h.Evidence.String(),
	}
}

func (j jsonWriter) association(a Association) associationJSON {
	out := associationJSON{Kind: a.Kind, Count: a.Count, Of: a.Of, Thread: a.Thread.Thread, Text: a.Text}
	switch a.Kind {
	case "period":
		out.Period = j.Clock.Nanos(a.Value)
	case "argument":
		out.Function, out.Value = j.label(a.Func), a.Value
	}
	return out
}

func (j jsonWriter) exemplars(list []Exemplar) []exemplarJSON {
	out := []exemplarJSON{}
	for i := range list {
		out = append(out, j.exemplar(&list[i]))
	}
	return out
}

func (j jsonWriter) exemplar(e *Exemplar) exemplarJSON {
	start, duration := j.Clock.Nanos(e.Start-j.Start), j.Clock.Nanos(e.Duration)
	return exemplarJSON{e.Thread.Thread, e.Thread.Process, start, duration, e.Number}
}

package locks

import (
	"encoding/json"
	"io"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// jsonReport is what WriteJSON writes. Times are integers in Unit, moments are
// since the start of the trace. Locks are named by their place in Locks, from 1 on.
type jsonReport struct {
	Unit      string      `json:"unit"` // ns or ticks
	Locks     []jsonLock  `json:"locks"`
	Order     []jsonEdge  `json:"order"`
	Cycles    []jsonCycle `json:"cycles"`
	Stuck     []jsonStuck `json:"stuck"`
	Unseen    uint64      `json:"unseen_ends"`
	Orphans   uint64      `json:"unmatched_unlocks"`
	Handed    uint64      `json:"handed_over"`
	Truncated bool        `json:"too_many_locks"`
}

type jsonLock struct {
	Number    int           `json:"lock"`
	Address   string        `json:"address,omitempty"`
	ID        reader.FuncID `json:"id"`
	Function  string        `json:"function"`
	Taken     uint64        `json:"taken"`
	Contended uint64        `json:"contended"`
	Tried     uint64        `json:"tried"` // of taken
	Waits     jsonTimes     `json:"waits"`
	Holds     jsonTimes     `json:"holds"`
	Longest   *jsonStay     `json:"longest_hold"`
	WaitPaths []jsonPath    `json:"waiting_paths"`
	HoldPaths []jsonPath    `json:"holding_paths"`
	Blame     []jsonBlame   `json:"blame"`
	Free      json.Number   `json:"waited_for_nobody"`
	Queued    jsonQueued    `json:"convoys"`
}

type jsonTimes struct {
	Count       uint64      `json:"count"`
	Sum         json.Number `json:"sum"`
	P50         uint64      `json:"p50"`
	P99         uint64      `json:"p99"`
	Max         uint64      `json:"max"`
	Approximate bool        `json:"approximate"`
}

type jsonThread struct {
	File    int32  `json:"file"` // position on the command line, from 1
	Process int32  `json:"process"`
	Thread  int32  `json:"thread"`
	Name    string `json:"name,omitempty"`
}

type jsonStay struct {
	Thread   jsonThread `json:"thread"`
	Start    uint64     `json:"start"`
	Duration uint64     `json:"duration"`
	Path     []string   `json:"path"`
}

type jsonPath struct {
	Path  []string   `json:"path"`
	Count uint64     `json:"count"`
	Sum   uint64     `json:"sum"`
	Max   uint64     `json:"max"`
	Self  []jsonSelf `json:"self,omitempty"`
}

type jsonSelf struct {
	ID       reader.FuncID `json:"id"`
	Function string        `json:"function"`
	Time     uint64        `json:"time"`
}

type jsonBlame struct {
	Waiter []string `json:"waiter"`
	Holder []string `json:"holder"`
	Time   uint64   `json:"time"`
}

type jsonQueued struct {
	Count   uint64       `json:"count"`
	Sum     uint64       `json:"sum"`
	Longest []jsonConvoy `json:"longest"`
}

type jsonConvoy struct {
	Start    uint64      `json:"start"`
	Duration uint64      `json:"duration"`
	Waits    int         `json:"waits"`
	Most     int         `json:"most"`
	First    jsonThread  `json:"first"`
	Holder   *jsonThread `json:"holder"`
	Path     []string    `json:"holder_path,omitempty"`
}

type jsonEdge struct {
	Held      int        `json:"held"`
	Taken     int        `json:"taken"`
	Count     uint64     `json:"count"`
	Start     uint64     `json:"start"`
	Thread    jsonThread `json:"thread"`
	HeldPath  []string   `json:"held_path"`
	TakenPath []string   `json:"taken_path"`
}

type jsonCycle []jsonEdge

type jsonStuck struct {
	Lock       int         `json:"lock"`
	Thread     jsonThread  `json:"thread"`
	Start      uint64      `json:"start"`
	Path       []string    `json:"path"`
	Holder     *jsonThread `json:"holder"`
	HolderPath []string    `json:"holder_path,omitempty"`
}

// jsonWriter converts what reports share.
type jsonWriter struct {
	*Report
	names symbolize.Names
	view  View
}

func (w *jsonWriter) at(tsc uint64) uint64 { return w.Clock.Nanos(tsc - min(tsc, w.First)) }

func (w *jsonWriter) thread(t reader.Thread) jsonThread {
	return jsonThread{t.File + 1, t.Process, t.Thread, w.view.Threads.NameOf(t)}
}

func (w *jsonWriter) path(path []reader.FuncID) []string {
	list := make([]string, len(path))
	for i, fn := range path {
		list[i] = symbolize.Label(w.names, fn)
	}
	return list
}

func (w *jsonWriter) paths(list []PathReport) []jsonPath {
	out := []jsonPath{}
	for _, p := range list {
		j := jsonPath{Path: w.path(p.Path), Count: p.Count, Sum: w.Clock.Nanos(p.Ticks), Max: w.Clock.Nanos(p.Longest)}
		for _, s := range p.Self {
			j.Self = append(j.Self, jsonSelf{s.Func, symbolize.Label(w.names, s.Func), w.Clock.Nanos(s.Ticks)})
		}
		out = append(out, j)
	}
	return out
}

func (w *jsonWriter) times(t *Times) jsonTimes {
	sum := json.Number(w.nanos(t.Sum).String())
	return jsonTimes{t.Count, sum, w.Clock.Nanos(t.P50), w.Clock.Nanos(t.P99), w.Clock.Nanos(t.Max), t.Approximate}
}

func (w *jsonWriter) holder(t reader.Thread, held bool) *jsonThread {
	if !held {
		return nil
	}
	j := w.thread(t)
	return &j
}

func (w *jsonWriter) lock(number int, l *LockReport) jsonLock {
	j := jsonLock{
		Number: number, ID: l.Func, Function: symbolize.Label(w.names, l.Func), Taken: l.Waits.Count + l.Tries, Contended: l.Contended,
		Tried: l.Tries, Waits: w.times(&l.Waits), Holds: w.times(&l.Holds), WaitPaths: w.paths(l.WaitPaths), HoldPaths: w.paths(l.HoldPaths),
		Blame: []jsonBlame{}, Free: json.Number(w.nanos(l.Free()).String()), Queued: jsonQueued{l.Queued.Count, w.Clock.Nanos(l.Queued.Ticks), []jsonConvoy{}},
	}
	if l.Logged {
		j.Address = l.name(w.names)
	}
	if l.Holds.Count > 0 {
		s := &l.Longest
		j.Longest = &jsonStay{w.thread(s.Thread), w.at(s.Start), w.Clock.Nanos(s.Ticks), w.path(s.Path)}
	}
	for _, b := range l.Blame {
		j.Blame = append(j.Blame, jsonBlame{w.path(b.Waiter), w.path(b.Holder), w.Clock.Nanos(b.Ticks)})
	}
	for _, c := range l.Convoys {
		j.Queued.Longest = append(j.Queued.Longest, jsonConvoy{
			w.at(c.Start), w.Clock.Nanos(c.Ticks), c.Waits, c.Most, w.thread(c.First), w.holder(c.Holder, c.Held), w.path(c.Path),
		})
	}
	return j
}

func (w *jsonWriter) edge(e *Edge) jsonEdge {
	return jsonEdge{
		e.Held + 1, e.Taken + 1, e.Count, w.at(e.Start), w.thread(e.Thread), w.path(e.HeldPath), w.path(e.TakenPath),
	}
}

// WriteJSON writes an object with all that the report has. It returns the error of
// out.
func (r *Report) WriteJSON(out io.Writer, names symbolize.Names, v View) error {
	w := &jsonWriter{r, names, v}
	j := jsonReport{
		Unit: r.Clock.Unit(), Locks: []jsonLock{}, Order: []jsonEdge{}, Cycles: []jsonCycle{}, Stuck: []jsonStuck{},
		Unseen: r.Gaps, Orphans: r.Orphans, Handed: r.Handed, Truncated: r.Dropped,
	}
	for i := range r.Locks {
		j.Locks = append(j.Locks, w.lock(i+1, &r.Locks[i]))
	}
	for i := range r.Edges {
		j.Order = append(j.Order, w.edge(&r.Edges[i]))
	}
	for _, c := range r.Cycles {
		var cycle jsonCycle
		for i := range c.Edges {
			cycle = append(cycle, w.edge(&c.Edges[i]))
		}
		j.Cycles = append(j.Cycles, cycle)
	}
	for _, o := range r.Stuck {
		j.Stuck = append(j.Stuck, jsonStuck{
			o.Lock + 1, w.thread(o.Thread), w.at(o.Start), w.path(o.Path), w.holder(o.Holder, o.Held), w.path(o.HolderPath),
		})
	}
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	return e.Encode(j)
}

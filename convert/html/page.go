package html

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/klauspost/compress/flate"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

//go:embed assets
var assets embed.FS

// columnIDs are the columns of numbers: those with one number per call, the sums of functions, and the waits of
// threads.
var columnIDs = []string{"funcs", "starts", "durations", "depths", "ends", "sums", "waits"}

func asset(name string) string {
	data, err := assets.ReadFile("assets/" + name)
	if err != nil {
		panic(err) // cannot happen: the file is embedded
	}
	return string(data)
}

// page is the data of page.html. The template escapes nothing.
type page struct {
	Title, Style, Script  string
	StyleHash, ScriptHash string // for the content security policy
	Data                  []column
}

type column struct{ ID, Text string }

// meta has what the script needs in addition to the columns.
type meta struct {
	Unit      string         `json:"unit"`
	Epoch     string         `json:"epoch,omitempty"`
	Notes     []string       `json:"notes"`
	Left      uint64         `json:"left"`    // calls that are not in the columns
	Octaves   []octave       `json:"octaves"` // null if functions have no sums
	OffCPU    bool           `json:"offCPU"`
	Limited   bool           `json:"limited"` // functions have estimates of calls that are missing
	Functions []metaFunction `json:"functions"`
	Threads   []metaThread   `json:"threads"`
	Events    []metaEvent    `json:"events"`
	Values    [][2]any       `json:"values,omitempty"` // numbers of calls, and their arguments and results
}

type metaFunction struct {
	Name   string `json:"name"`
	Short  string `json:"short,omitempty"` // if different
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Source string `json:"source,omitempty"`
}

type metaThread struct {
	Name  string `json:"name"`
	Pool  string `json:"pool,omitempty"` // the name that threads of a pool share, if it is another one
	Calls int    `json:"calls"`
	Waits int    `json:"waits"`
}

type metaEvent struct {
	At     int64  `json:"at"`
	Thread int    `json:"thread"`
	Text   string `json:"text"`
}

// maxEnds is the maximum number of threads with open calls that the notes name.
const maxEnds = 8

// Write writes the page. names may be nil. Write sorts the recording's events and changes nothing
// else.
func (r *Page) Write(w io.Writer, names symbolize.Names) error {
	m := meta{
		Unit: reader.Clock{Frequency: r.opts.Frequency}.Unit(), Notes: append([]string{}, r.opts.Notes...),
		Left: min(r.opts.Left, maxExact), Octaves: r.opts.octaves(), OffCPU: r.opts.OffCPU, Limited: r.opts.Limited,
		Functions: []metaFunction{}, Threads: []metaThread{}, Events: []metaEvent{},
	}
	if r.opts.Epoch != 0 {
		m.Epoch = strconv.FormatUint(r.opts.Epoch, 10)
	}
	source := newSources(r.opts.Source)
	numbers := map[reader.FuncID]uint64{}
	number := func(fn reader.FuncID) uint64 {
		n, ok := numbers[fn]
		if !ok {
			n = uint64(len(m.Functions))
			numbers[fn] = n
			m.Functions = append(m.Functions, describe(names, fn, source))
		}
		return n
	}
	position := make([]int, len(r.threads))
	columns := map[string]*packer{}
	for _, id := range columnIDs {
		columns[id] = newPacker()
	}
	funcs, starts, durations, depths, ended, waits := columns["funcs"], columns["starts"], columns["durations"], columns["depths"], columns["ends"], columns["waits"]
	before, unnamed := 0, r.unnamed            // calls of the threads so far, and those whose values are missing
	open, earlier, ends := 0, 0, []string(nil) // number of calls that did not end, and a note for each thread
	order := r.order()
	several := len(order) > 1 && r.processOf(order[0]) != r.processOf(order[len(order)-1])
	for _, i := range order {
		t := r.threads[i]
		name := r.threadName(t.id, several)
		position[i] = len(m.Threads)
		m.Threads = append(m.Threads, metaThread{name, r.poolName(t.id, several), t.calls, len(t.waits)})
		last := int64(0)
		for _, wait := range t.waits {
			wait.addTo(waits, last)
			last = wait.end
		}
		last = 0
		for _, chunk := range t.chunks {
			for i := range chunk {
				c := &chunk[i]
				funcs.add(number(c.fn))
				starts.add(uint64(c.start - last))
				durations.add(c.duration)
				depths.add(uint64(c.depth))
				ended.add(uint64(c.end))
				last = c.start
			}
		}
		for _, v := range t.values {
			if len(m.Values) == maxValues {
				unnamed++
				continue
			}
			m.Values = append(m.Values, [2]any{before + v.call, strings.ToValidUTF8(v.text, "\uFFFD")})
		}
		before += t.calls
		earlier += t.earlier
		if n := t.truncated; n > 0 {
			open += n
			ends = append(ends, fmt.Sprintf("%d open at the end of %s", n, name))
		}
	}
	if len(ends) > maxEnds {
		ends = []string{fmt.Sprintf("%d open at the end of %d threads", open, len(ends))}
	}
	if earlier > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("%d began before", earlier))
	}
	m.Notes = append(m.Notes, ends...)
	sums := make(map[uint64]*Function, len(r.opts.Functions))
	for i := range r.opts.Functions {
		f := &r.opts.Functions[i]
		sums[number(f.ID)] = f
	}
	for n := range m.Functions {
		cmp.Or(sums[uint64(n)], &Function{}).addTo(columns["sums"], m.Limited)
	}
	events, dropped := r.sorted()
	for _, e := range events {
		m.Events = append(m.Events, metaEvent{e.at, position[e.index], e.text})
	}
	if unnamed > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("%d calls without their arguments", unnamed))
	}
	if r.lostWaits > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("%d times off CPU not in the page", r.lostWaits))
	}
	if dropped > 0 {
		m.Notes = append(m.Notes, fmt.Sprintf("%d events not in the page", dropped))
	}
	return r.render(w, m, columns)
}

func (r *Page) render(w io.Writer, m meta, columns map[string]*packer) error {
	p := page{Title: escapeHTML(r.opts.Title), Style: asset("style.css"), Script: asset("page.js")}
	p.StyleHash, p.ScriptHash = hash(p.Style), hash(p.Script)
	about, err := json.Marshal(m)
	if err != nil {
		return err
	}
	columns["meta"] = newPacker()
	columns["meta"].buf = about
	for _, id := range append([]string{"meta"}, columnIDs...) {
		text, err := columns[id].finish()
		if err != nil {
			return err
		}
		p.Data = append(p.Data, column{id, text})
	}
	t, err := template.New("page").Parse(asset("page.html"))
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}

// order returns the threads by file, process and thread.
func (r *Page) order() []int {
	var order []int
	for i, t := range r.threads {
		if t != nil {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := r.threads[a].id, r.threads[b].id
		return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Process, y.Process), cmp.Compare(x.Thread, y.Thread))
	})
	return order
}

// processOf returns the file and the process of a thread. If the first and the last thread in order
// have the same, all threads do.
func (r *Page) processOf(i int) [2]int32 {
	return [2]int32{r.threads[i].id.File, r.threads[i].id.Process}
}

// threadName returns the name of a thread. If there are several processes or files, it includes
// them.
func (r *Page) threadName(t reader.Thread, several bool) string {
	name := cmp.Or(nameOf(r.opts.ThreadName, t), "thread") + " " + strconv.Itoa(int(t.Thread))
	if !several {
		return name
	}
	if t.Process != 0 {
		name = strings.TrimSpace(nameOf(r.opts.ProcessName, t)+" "+strconv.Itoa(int(t.Process))) + ": " + name
	}
	if t.File > 0 {
		name += fmt.Sprintf(" of file %d", t.File+1)
	}
	return name
}

// poolName returns the name that a thread shares with the others of its pool: without the number at its end.
func (r *Page) poolName(t reader.Thread, several bool) string {
	name := strings.TrimRight(cmp.Or(nameOf(r.opts.ThreadName, t), "thread"), "0123456789")
	name = cmp.Or(strings.TrimRight(name, "-_#:/ "), "thread")
	if process := strings.TrimSpace(nameOf(r.opts.ProcessName, t) + " " + strconv.Itoa(int(t.Process))); several && t.Process != 0 {
		name = process + ": " + name
	}
	return name
}

// nameOf returns what name, ThreadName or ProcessName of the options, returns for a thread.
func nameOf(name func(reader.Thread) string, t reader.Thread) string {
	if name == nil {
		return ""
	}
	return strings.ToValidUTF8(name(t), "\uFFFD")
}

func describe(names symbolize.Names, fn reader.FuncID, source *sources) metaFunction {
	f := metaFunction{Name: strings.ToValidUTF8(symbolize.Label(names, fn), "\uFFFD")}
	if short := symbolize.Shorten(f.Name); short != f.Name {
		f.Short = short
	}
	if names != nil {
		if s, ok := names.Func(fn); ok {
			f.File, f.Line = strings.ToValidUTF8(s.File, "\uFFFD"), s.Line
			f.Source = source.at(s.File, s.Line)
		}
	}
	return f
}

// hash returns the source expression of a script or a style for a content security policy.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func escapeHTML(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&#34;").Replace(strings.ToValidUTF8(text, "\uFFFD"))
}

// packer compresses numbers: as varints, with deflate, in base64.
type packer struct {
	text    strings.Builder
	encoder io.WriteCloser
	deflate *flate.Writer
	buf     []byte
	err     error
}

func newPacker() *packer {
	p := &packer{}
	p.encoder = base64.NewEncoder(base64.StdEncoding, &p.text)
	p.deflate, p.err = flate.NewWriter(p.encoder, flate.DefaultCompression)
	return p
}

func (p *packer) add(v uint64) {
	if p.buf = binary.AppendUvarint(p.buf, v); len(p.buf) >= 1<<16 {
		p.flush()
	}
}

func (p *packer) flush() {
	if p.err == nil {
		_, p.err = p.deflate.Write(p.buf)
	}
	p.buf = p.buf[:0]
}

// finish returns all numbers as base64. The packer must not be used afterwards.
func (p *packer) finish() (string, error) {
	p.flush()
	if p.err == nil {
		p.err = p.deflate.Close()
	}
	if p.err == nil {
		p.err = p.encoder.Close()
	}
	return p.text.String(), p.err
}

package convert

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/internal/yamltext"
	"github.com/xray-tools/xray/reader"
)

// YAML writes trace YAML: a header, and a flow map for each record on a separate line, in
// the order of the blocks and their events. The text is that of llvm-xray without its bugs:
// llvm-xray also shows the type of a typed event for later records, and writes some payloads
// that cannot be read back. Bytes of names that are not UTF-8 become U+FFFD.
//
// If traces are read together, their processes get different IDs. See [tracewrite.Processes].
type YAML struct {
	out     output
	opts    Options
	records *yamlRecords
	any     bool // a record was written
}

// yamlRecords converts events to the text of records.
type yamlRecords struct {
	opts    Options
	heads   labels
	threads [yamlThreads]yamlThread // by index modulo yamlThreads
	known   int                     // number of threads of windows whose process is known
	tsc     counter

	processes tracewrite.Processes
}

func newYAMLRecords(opts Options) *yamlRecords {
	r := &yamlRecords{opts: opts}
	r.heads = newLabels(r.appendHead)
	return r
}

// yamlThread is the text between a record's function and its kind.
type yamlThread struct {
	index int
	text  []byte // nil until a thread appears
	cpu   uint16
}

// yamlThreads is the number of threads whose text is kept. A trace may have a million threads.
const yamlThreads = 1 << 12

// NewYAML starts the YAML of a trace with the header opts.Header.
func NewYAML(w io.Writer, opts Options) *YAML {
	y := &YAML{out: newOutput(w), opts: opts, records: newYAMLRecords(opts)}
	h := opts.Header
	b := append(y.out.buf, "---\nheader:\n  version:         "...)
	b = strconv.AppendUint(b, uint64(h.Version), 10)
	b = append(b, "\n  type:            "...)
	b = strconv.AppendUint(b, uint64(h.Type), 10)
	b = append(b, "\n  constant-tsc:    "...)
	b = strconv.AppendBool(b, h.ConstantTSC)
	b = append(b, "\n  nonstop-tsc:     "...)
	b = strconv.AppendBool(b, h.NonstopTSC)
	b = append(b, "\n  cycle-frequency: "...)
	b = strconv.AppendUint(b, h.CycleFrequency, 10)
	y.out.buf = append(b, "\nrecords:"...)
	return y
}

// appendHead appends a record up to its function, for records of type 0.
func (r *yamlRecords) appendHead(dst []byte, id reader.FuncID) []byte {
	return r.appendTypedHead(dst, 0, id)
}

func (r *yamlRecords) appendTypedHead(dst []byte, recordType uint16, id reader.FuncID) []byte {
	dst = append(dst, "  - { type: "...)
	dst = strconv.AppendUint(dst, uint64(recordType), 10)
	dst = append(dst, ", func-id: "...)
	dst = strconv.AppendInt(dst, int64(id), 10)
	dst = append(dst, ", function: "...)
	return yamltext.AppendScalar(dst, strings.ToValidUTF8(r.opts.labelOrID(id), "\uFFFD"))
}

// yamlKinds is the text from a record's kind to its TSC.
var yamlKinds = func() (texts [reader.Typed + 1]string) {
	for k := range texts {
		texts[k] = reader.Kind(k).String() + ", tsc: "
	}
	return texts
}()

// Block writes the events of a block.
func (y *YAML) Block(b *reader.Block) error {
	if len(b.Events) == 0 {
		return y.out.err
	}
	buf := y.begin(y.out.buf)
	args, payloads := b.Args, b.Payloads
	for i := range b.Events {
		e := &b.Events[i]
		text := y.records.thread(b.Index, b.Thread, e.CPU)
		if !e.Side {
			buf = y.records.append(buf, e, text)
		} else {
			var eventArgs []reader.Arg
			eventArgs, args = take(args, i)
			var payload reader.Payload
			for len(payloads) > 0 && payloads[0].Event <= i {
				payload, payloads = payloads[0], payloads[1:]
			}
			buf = y.records.appendSided(buf, e, text, eventArgs, payload)
		}
		buf = y.out.spill(buf)
	}
	y.out.buf = buf
	return y.out.err
}

// begin ends the header before the first record.
func (y *YAML) begin(buf []byte) []byte {
	if y.any {
		return buf
	}
	y.any = true
	return append(buf, '\n')
}

// Sorted writes a whole trace in time order, with up to n goroutines. edit is as in
// [reader.Trace.EachByTime].
func (y *YAML) Sorted(t *reader.Trace, n int, edit func(*reader.Block) *reader.Block) error {
	shards := make([]*yamlRecords, n)
	for i := range shards {
		shards[i] = newYAMLRecords(y.opts)
	}
	err := t.EachByTime(n, edit, func(shard int, w *reader.Window) {
		shards[shard].window(w)
	}, func(w *reader.Window) error {
		if len(w.Out) > 0 {
			y.out.buf = y.out.flush(y.begin(y.out.buf))
			y.out.flush(w.Out)
		}
		return y.out.err
	})
	y.out.err = cmp.Or(y.out.err, err)
	return y.out.err
}

// take splits args into those of the i-th event and the rest.
func take(args []reader.Arg, i int) (of, rest []reader.Arg) {
	n := 0
	for n < len(args) && args[n].Event <= i {
		n++
	}
	return args[:n], args[n:]
}

// window appends the records of a window to its Out.
func (r *yamlRecords) window(w *reader.Window) {
	for ; r.known < len(w.Threads); r.known++ {
		r.processes.Of(w.Threads[r.known])
	}
	out := w.Out
	for _, i := range w.Order {
		e := &w.Events[i]
		owner := w.Owners[i]
		text := r.thread(int(owner), w.Threads[owner], e.CPU)
		if e.Side {
			out = r.appendSided(out, e, text, w.ArgsOf(i), w.PayloadOf(i))
		} else {
			out = r.append(out, e, text)
		}
	}
	w.Out = out
}

// thread returns the text of a thread on a CPU.
func (r *yamlRecords) thread(index int, t reader.Thread, cpu uint16) []byte {
	y := &r.threads[index%yamlThreads]
	if y.index != index || y.cpu != cpu || y.text == nil {
		t.Process = r.processes.Of(t)
		*y = yamlThread{index, appendYAMLThread(y.text[:0], t, cpu), cpu}
	}
	return y.text
}

// append appends a record that has neither arguments nor a payload.
func (r *yamlRecords) append(dst []byte, e *reader.Event, thread []byte) []byte {
	dst = append(dst, r.heads.of(e.Func)...)
	dst = append(dst, thread...)
	dst = append(dst, yamlKinds[e.Kind]...)
	dst = r.tsc.append(dst, e.TSC)
	return append(dst, ", data: '' }\n"...)
}

// appendSided appends a record with arguments or a payload.
func (r *yamlRecords) appendSided(dst []byte, e *reader.Event, thread []byte, args []reader.Arg, p reader.Payload) []byte {
	if e.Kind == reader.Typed {
		dst = r.appendTypedHead(dst, p.Type, e.Func)
	} else {
		dst = append(dst, r.heads.of(e.Func)...)
	}
	for i, a := range args {
		if i == 0 {
			dst = append(dst, ", args: [ "...)
		} else {
			dst = append(dst, ", "...)
		}
		dst = strconv.AppendUint(dst, a.Value, 10)
	}
	if len(args) > 0 {
		dst = append(dst, " ]"...)
	}
	dst = append(dst, thread...)
	dst = append(dst, yamlKinds[e.Kind]...)
	dst = r.tsc.append(dst, e.TSC)
	dst = append(dst, ", data: "...)
	dst = yamltext.AppendScalar(dst, string(p.Data))
	return append(dst, " }\n"...)
}

func appendYAMLThread(dst []byte, t reader.Thread, cpu uint16) []byte {
	dst = append(dst, ", cpu: "...)
	dst = strconv.AppendUint(dst, uint64(cpu), 10)
	if t.Thread != 0 {
		dst = append(dst, ", thread: "...)
		dst = strconv.AppendUint(dst, uint64(uint32(t.Thread)), 10)
	}
	if t.Process != 0 {
		dst = append(dst, ", process: "...)
		dst = strconv.AppendUint(dst, uint64(uint32(t.Process)), 10)
	}
	return append(dst, ", kind: "...)
}

// Close ends the YAML.
func (y *YAML) Close() error {
	if !y.any {
		y.out.buf = append(y.out.buf, "         []\n"...)
	}
	return y.out.finish("...\n")
}

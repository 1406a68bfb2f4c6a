package convert

import (
	"io"
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// rows is the common part of [CSV] and [JSONLines]: a line for each call. The start of the line is
// the same for all calls of a thread.
type rows struct {
	out     output
	opts    Options
	time    timeline
	threads perThread[string] // start of a line; "" until a thread appears
	start   counter
	// columns are the names of the three times.
	columns struct{ start, duration, self string }
}

func newRows(w io.Writer, opts Options) rows {
	r := rows{out: newOutput(w), opts: opts}
	r.time, r.columns.start = opts.startTimeline()
	unit := r.time.clock.Unit()
	r.columns.duration, r.columns.self = "duration_"+unit, "self_"+unit
	return r
}

// write writes a batch. appendThread appends the start of the lines of a thread, and appendCall the
// rest of the line of a call, given its arguments.
func (r *rows) write(b *calls.Batch, appendThread func([]byte, reader.Thread) []byte,
	appendCall func(dst []byte, b *calls.Batch, i int) []byte) error {
	thread := r.threads.at(b.Index)
	if *thread == "" {
		*thread = string(appendThread(nil, b.Thread))
	}
	buf := r.out.buf
	for i := range b.Calls {
		buf = r.out.spill(appendCall(append(buf, *thread...), b, i))
	}
	r.out.buf = buf
	return r.out.err
}

// appendArgs appends arguments with a separator between them.
func appendArgs(dst []byte, args []calls.Arg, separator byte) []byte {
	for i, a := range args {
		if i > 0 {
			dst = append(dst, separator)
		}
		dst = strconv.AppendUint(dst, a.Value, 10)
	}
	return dst
}

// Close writes the rest.
func (r *rows) Close() error { return r.out.finish("") }

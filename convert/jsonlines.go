package convert

import (
	"io"
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// JSONLines writes a JSON object for each call, on a line of its own. Its keys
// are the columns of [CSV], in the same order; "caller_id" and "caller" are
// missing from the outermost calls, "args" is an array, and is missing where no
// arguments were logged. Numbers are JSON integers of up to 64 bits, which some
// programs round when they read them.
type JSONLines struct {
	out     output
	opts    Options
	time    timeline
	names   labels
	callers labels
	threads perThread[string] // start of a line; "" until a thread appears
	start   counter
	keys    struct{ start, duration, self string }
}

// NewJSONLines returns a writer of lines.
func NewJSONLines(w io.Writer, opts Options) *JSONLines {
	j := &JSONLines{out: newOutput(w), opts: opts, time: opts.timeline()}
	j.names = newLabels(func(dst []byte, id reader.FuncID) []byte {
		dst = strconv.AppendInt(append(dst, `,"function_id":`...), int64(id), 10)
		dst = appendJSON(append(dst, `,"function":`...), opts.label(id))
		return append(dst, `,"depth":`...)
	})
	j.callers = newLabels(func(dst []byte, id reader.FuncID) []byte {
		dst = strconv.AppendInt(append(dst, `,"caller_id":`...), int64(id), 10)
		return appendJSON(append(dst, `,"caller":`...), opts.label(id))
	})
	unit := j.time.clock.Unit()
	j.keys.start = `,"start_` + unit + `":`
	j.keys.duration = `,"duration_` + unit + `":`
	j.keys.self = `,"self_` + unit + `":`
	return j
}

// Calls implements [calls.Sink].
func (j *JSONLines) Calls(b *calls.Batch) error {
	thread := j.threads.at(b.Index)
	if *thread == "" {
		*thread = string(j.appendThread(nil, b.Thread))
	}
	buf, args := j.out.buf, b.Args
	for i := range b.Calls {
		call := &b.Calls[i]
		buf = append(buf, *thread...)
		buf = append(buf, j.names.of(call.Func)...)
		buf = strconv.AppendUint(buf, uint64(call.Depth), 10)
		if call.Caller != 0 {
			buf = append(buf, j.callers.of(call.Caller)...)
		}
		buf = append(buf, j.keys.start...)
		buf = j.start.appendSigned(buf, j.time.at(call.Start))
		buf = append(buf, j.keys.duration...)
		buf = strconv.AppendUint(buf, j.time.clock.Nanos(call.Duration), 10)
		buf = append(buf, j.keys.self...)
		buf = strconv.AppendUint(buf, j.time.clock.Nanos(call.Self), 10)
		buf = append(buf, `,"end":"`...)
		buf = append(buf, call.End.String()...)
		if call.Args {
			var of []calls.Arg
			of, args = takeArgs(args, i)
			buf = append(buf, `","args":[`...)
			for k, a := range of {
				if k > 0 {
					buf = append(buf, ',')
				}
				buf = strconv.AppendUint(buf, a.Value, 10)
			}
			buf = append(buf, "]}\n"...)
		} else {
			buf = append(buf, "\"}\n"...)
		}
		buf = j.out.spill(buf)
	}
	j.out.buf = buf
	return j.out.err
}

func (j *JSONLines) appendThread(dst []byte, t reader.Thread) []byte {
	dst = append(dst, '{')
	if len(j.opts.Files) > 1 {
		dst = appendJSON(append(dst, `"trace":`...), j.opts.file(t))
		dst = append(dst, ',')
	}
	dst = strconv.AppendInt(append(dst, `"process":`...), int64(t.Process), 10)
	return strconv.AppendInt(append(dst, `,"thread":`...), int64(t.Thread), 10)
}

// Close writes what is left.
func (j *JSONLines) Close() error { return j.out.finish("") }

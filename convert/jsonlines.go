package convert

import (
	"io"
	"strconv"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// JSONLines writes a JSON object for each call, on a separate line. Its keys are the
// columns of [CSV], in the same order. Outermost calls have no "caller_id" and "caller".
// "args" is an array, and present only if arguments were logged. Numbers are JSON integers
// of up to 64 bits, which some programs round.
type JSONLines struct {
	named []calls.Recorded // of the current call
	rows
	names   labels
	callers labels
	keys    struct{ start, duration, self string }
}

// appendNamed appends arguments or results as an object after head, or nothing if there is none.
func appendNamed(dst []byte, head string, named []calls.Recorded, exit bool) []byte {
	from := len(dst)
	dst = append(dst, head...)
	if to := calls.AppendValues(dst, named, exit); len(to) > len(dst) {
		return to
	}
	return dst[:from]
}

// NewJSONLines returns a writer of lines.
func NewJSONLines(w io.Writer, opts Options) *JSONLines {
	j := &JSONLines{rows: newRows(w, opts)}
	j.names = newLabels(func(dst []byte, id reader.FuncID) []byte {
		dst = strconv.AppendInt(append(dst, `,"function_id":`...), int64(id), 10)
		dst = appendJSON(append(dst, `,"function":`...), opts.label(id))
		return append(dst, `,"depth":`...)
	})
	j.callers = newLabels(func(dst []byte, id reader.FuncID) []byte {
		dst = strconv.AppendInt(append(dst, `,"caller_id":`...), int64(id), 10)
		return appendJSON(append(dst, `,"caller":`...), opts.label(id))
	})
	key := func(column string) string { return `,"` + column + `":` }
	j.keys.start, j.keys.duration, j.keys.self = key(j.columns.start), key(j.columns.duration), key(j.columns.self)
	return j
}

// Calls implements [calls.Sink].
func (j *JSONLines) Calls(b *calls.Batch) error { return j.write(b, j.appendThread, j.appendCall) }

func (j *JSONLines) appendCall(dst []byte, b *calls.Batch, i int) []byte {
	call := &b.Calls[i]
	dst = append(dst, j.names.of(call.Func)...)
	dst = strconv.AppendUint(dst, uint64(call.Depth), 10)
	if call.Caller != 0 {
		dst = append(dst, j.callers.of(call.Caller)...)
	}
	dst = j.start.appendSigned(append(dst, j.keys.start...), j.time.at(call.Start))
	dst = strconv.AppendUint(append(dst, j.keys.duration...), j.time.clock.Nanos(call.Duration), 10)
	dst = strconv.AppendUint(append(dst, j.keys.self...), j.time.clock.Nanos(call.Self), 10)
	dst = append(append(dst, `,"end":"`...), call.Ending().String()...)
	dst = append(dst, '"')
	if call.Args {
		dst = append(appendArgs(append(dst, `,"args":[`...), b.ArgsOf(i), ','), ']')
	}
	if j.opts.Values != nil {
		j.named = j.opts.Values.Of(b, i, j.named[:0])
		dst = appendNamed(dst, `,"values":`, j.named, false)
		dst = appendNamed(dst, `,"results":`, j.named, true)
	}
	return append(dst, "}\n"...)
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

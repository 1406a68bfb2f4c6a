package convert

import (
	"io"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// CSV writes a row for each call, below a row of column names:
//
//	trace        name of the trace; only if there are several
//	process, thread
//	function_id, function
//	depth        number of calls that were open around it
//	caller_id, caller
//	             the function that made the call; empty for outermost calls
//	start_ns     since Options.Base; start_unix_ns since 1970 with Options.Absolute
//	duration_ns  from entry to exit
//	self_ns      duration without callees
//	end          exited, tail-exited, continued, inferred, truncated or left; see calls.Call.Ending
//	args         logged arguments, separated by spaces
//	values, results
//	             JSON objects of recorded arguments and results; only with Options.Values
//
// If the frequency is unknown, the three times are named start_ticks, duration_ticks and
// self_ticks. Custom and typed events are omitted. Fields are quoted as in RFC 4180, and
// lines end in a line feed. Names that a spreadsheet would treat as a formula begin with an
// apostrophe.
type CSV struct {
	rows
	names labels
	named []calls.Recorded // of the current call
	text  []byte
}

// NewCSV starts the table.
func NewCSV(w io.Writer, opts Options) *CSV {
	c := &CSV{rows: newRows(w, opts)}
	c.names = newLabels(func(dst []byte, id reader.FuncID) []byte {
		dst = append(strconv.AppendInt(dst, int64(id), 10), ',')
		return append(appendField(dst, opts.label(id)), ',')
	})
	b := c.out.buf
	if len(opts.Files) > 1 {
		b = append(b, "trace,"...)
	}
	b = append(b, "process,thread,function_id,function,depth,caller_id,caller"...)
	for _, column := range []string{c.columns.start, c.columns.duration, c.columns.self} {
		b = append(append(b, ','), column...)
	}
	b = append(b, ",end,args"...)
	if opts.Values != nil {
		b = append(b, ",values,results"...)
	}
	c.out.buf = append(b, '\n')
	return c
}

// Calls implements [calls.Sink].
func (c *CSV) Calls(b *calls.Batch) error { return c.write(b, c.appendThread, c.appendCall) }

func (c *CSV) appendCall(dst []byte, b *calls.Batch, i int) []byte {
	call := &b.Calls[i]
	dst = append(dst, c.names.of(call.Func)...)
	dst = strconv.AppendUint(dst, uint64(call.Depth), 10)
	dst = append(dst, ',')
	if call.Caller != 0 {
		dst = append(dst, c.names.of(call.Caller)...)
	} else {
		dst = append(dst, ",,"...)
	}
	dst = append(c.start.appendSigned(dst, c.time.at(call.Start)), ',')
	dst = append(strconv.AppendUint(dst, c.time.clock.Nanos(call.Duration), 10), ',')
	dst = append(strconv.AppendUint(dst, c.time.clock.Nanos(call.Self), 10), ',')
	dst = append(append(dst, call.Ending().String()...), ',')
	dst = appendArgs(dst, b.ArgsOf(i), ' ')
	if c.opts.Values != nil {
		c.named = c.opts.Values.Of(b, i, c.named[:0])
		for _, exit := range [...]bool{false, true} {
			c.text = calls.AppendValues(c.text[:0], c.named, exit)
			dst = appendField(append(dst, ','), string(c.text))
		}
	}
	return append(dst, '\n')
}

func (c *CSV) appendThread(dst []byte, t reader.Thread) []byte {
	if len(c.opts.Files) > 1 {
		dst = append(appendField(dst, c.opts.file(t)), ',')
	}
	dst = strconv.AppendInt(dst, int64(t.Process), 10)
	dst = append(dst, ',')
	dst = strconv.AppendInt(dst, int64(t.Thread), 10)
	return append(dst, ',')
}

// appendField appends a text field, quoted if needed.
func appendField(dst []byte, s string) []byte {
	s = texttab.CSVText(s)
	if !strings.ContainsAny(s, "\",\r\n") && strings.TrimSpace(s) == s {
		return append(dst, s...)
	}
	dst = append(dst, '"')
	for _, c := range []byte(s) {
		if c == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

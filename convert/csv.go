package convert

import (
	"io"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// CSV writes a row for each call, below a row of column names:
//
//	trace        name of the trace; only where there are several
//	process, thread
//	function_id, function
//	depth        how many calls were open around it
//	caller_id, caller
//	             the call it was made from; empty when it was the outermost
//	start_ns     since Options.Base
//	duration_ns  from entry to exit
//	self_ns      duration less that of the calls it made
//	end          exited, tail-exited, inferred or truncated; see calls.End
//	args         logged arguments, separated by spaces
//
// Where the frequency is unknown, the three times are named start_ticks,
// duration_ticks and self_ticks. Custom and typed events are no calls and are
// left out. Fields are quoted as RFC 4180 says; lines end in a line feed.
type CSV struct {
	out     output
	opts    Options
	time    timeline
	names   labels
	threads perThread[string] // start of a row; "" until a thread appears
	start   counter
}

// NewCSV starts the table.
func NewCSV(w io.Writer, opts Options) *CSV {
	c := &CSV{out: newOutput(w), opts: opts, time: opts.timeline()}
	c.names = newLabels(func(dst []byte, id reader.FuncID) []byte {
		dst = append(strconv.AppendInt(dst, int64(id), 10), ',')
		return append(appendField(dst, opts.label(id)), ',')
	})
	b := c.out.buf
	if len(opts.Files) > 1 {
		b = append(b, "trace,"...)
	}
	b = append(b, "process,thread,function_id,function,depth,caller_id,caller"...)
	for _, column := range []string{"start_", "duration_", "self_"} {
		b = append(b, ',')
		b = append(append(b, column...), c.time.clock.Unit()...)
	}
	c.out.buf = append(b, ",end,args\n"...)
	return c
}

// Calls implements [calls.Sink].
func (c *CSV) Calls(b *calls.Batch) error {
	thread := c.threads.at(b.Index)
	if *thread == "" {
		*thread = string(c.appendThread(nil, b.Thread))
	}
	buf, args := c.out.buf, b.Args
	for i := range b.Calls {
		call := &b.Calls[i]
		buf = append(buf, *thread...)
		buf = append(buf, c.names.of(call.Func)...)
		buf = strconv.AppendUint(buf, uint64(call.Depth), 10)
		buf = append(buf, ',')
		if call.Caller != 0 {
			buf = append(buf, c.names.of(call.Caller)...)
		} else {
			buf = append(buf, ",,"...)
		}
		buf = c.start.appendSigned(buf, c.time.at(call.Start))
		buf = append(buf, ',')
		buf = strconv.AppendUint(buf, c.time.clock.Nanos(call.Duration), 10)
		buf = append(buf, ',')
		buf = strconv.AppendUint(buf, c.time.clock.Nanos(call.Self), 10)
		buf = append(buf, ',')
		buf = append(buf, call.End.String()...)
		buf = append(buf, ',')
		if call.Args {
			var of []calls.Arg
			of, args = takeArgs(args, i)
			for k, a := range of {
				if k > 0 {
					buf = append(buf, ' ')
				}
				buf = strconv.AppendUint(buf, a.Value, 10)
			}
		}
		buf = c.out.spill(append(buf, '\n'))
	}
	c.out.buf = buf
	return c.out.err
}

// takeArgs splits the arguments of the i-th call off.
func takeArgs(args []calls.Arg, i int) (of, rest []calls.Arg) {
	n := 0
	for n < len(args) && args[n].Call <= i {
		n++
	}
	return args[:n], args[n:]
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

// appendField appends a field, in quotes where they are needed.
func appendField(dst []byte, s string) []byte {
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

// Close ends the table.
func (c *CSV) Close() error { return c.out.finish("") }

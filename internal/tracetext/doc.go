// Package tracetext is a readable form of binary XRay traces, both ways.
// [Parse] assembles a text into a trace, [Format] writes the text of a file.
// Every file, however broken, has a text, and it assembles to the same bytes.
//
// A text is read line by line. Blank lines are skipped, and # starts a comment.
// A line is a word, then values in the order given here, then key=value fields
// in any order. Numbers are decimal, or hexadecimal after 0x, and may contain
// underscores. Strings are quoted as in Go.
//
// The first line is the header. All fields are optional; those shown are the
// defaults, but for the version, which is 3 in basic logs, and free, which is
// 16 bytes there:
//
//	xray fdr version=5 order=little flags=0x3 frequency=1000000000 buffer=16384 free=0000000000000000 fill=00
//	xray basic
//
// order is little or big, flags the whole flag word, frequency in ticks per
// second, buffer the size of a thread's buffer in bytes (fdr only), and free the
// free-form bytes behind it. A text without a header consists of bytes and zeros
// lines only: the file is no trace.
//
// Records of basic logs; functions and threads are decimal ids, and every
// process, cpu, tid and tsc may be left out, for 0. Up to version 2 there is no
// pid:
//
//	enter 3 tsc=100 tid=1 pid=1 cpu=0     also: exit, tail-exit, enter-arg
//	arg 3 100 tid=1 pid=1                 function, value
//
// Records of FDR logs. A delta is +n, or -n for events, which may go back; it
// may be left out, for +0. metadata is a custom event of version 5 that holds
// what the recorder of this project says; its body may also be in backquotes:
//
//	extents 412
//	new-buffer 11                         thread id
//	wall-clock 703.124640                 seconds, 6 digits of microseconds
//	wall-clock 703 micros=1000000         or so, for any number of them
//	pid 7
//	cpu 3 tsc=1000
//	tsc-wrap 8589935592
//	enter 3 +25                           also: exit, tail-exit, enter-arg
//	arg 100
//	custom "payload" +50                  version 5
//	custom "payload" tsc=1000 cpu=3       up to version 4; cpu only in version 4
//	typed 513 "payload" +7
//	metadata process `{"pid":7}` +0       kind by name or number, body
//	end-of-buffer
//
// What is no record:
//
//	bytes 0f0f 00                         pairs of hexadecimal digits
//	zeros 61                              at most 65536 in a line
//
// Recorders leave garbage in the bytes of a record that have no meaning. The
// header's fill field says what those hold, pad=aa says so for one record, and
// pad with as many bytes as there are gives each of them.
//
// Three forms save counting:
//
//	extents auto     the size of the block: up to the next extents or thread line
//	                 or the end, less the bytes and zeros lines that stand there
//	zeros auto       up to the next multiple of the buffer size behind the header,
//	                 where blocks of version 1 start
//	thread 11 pid=7 wall=1.000020 cpu=0 tsc=1000
//	                 all records that begin a block in this version; a field that
//	                 is left out is 0
package tracetext

import (
	"encoding/binary"

	"github.com/xray-tools/xray/reader"
)

// maxZeros bounds what one zeros line makes, so that a text does not assemble to
// vastly more than it is.
const maxZeros = 1 << 16

var (
	orders     = [...]binary.ByteOrder{binary.LittleEndian, binary.BigEndian}
	orderNames = [...]string{"little", "big"}
)

const metadataWord = "metadata"

// functionWords are the words of function records, by kind of event.
var functionWords = [...]string{
	reader.Enter:    "enter",
	reader.Exit:     "exit",
	reader.TailExit: "tail-exit",
	reader.EnterArg: "enter-arg",
}

// Package tracetext converts binary XRay traces to text and back. [Format] writes the
// text of a file, [Assemble] and [Parse] turn a text into a trace. Every file, however
// damaged, has a text, which assembles to the same bytes.
//
// The format is line-oriented. # starts a comment. A line is a word, then values in
// the order shown here, then key=value fields in any order. Numbers are decimal, or
// hexadecimal after 0x, and may contain underscores. Strings are quoted as in Go.
//
// The first line is the header. All fields are optional. The defaults are as shown,
// except in basic logs, where version is 3 and free is 16 bytes:
//
//	xray fdr version=5 order=little flags=0x3 frequency=1000000000 buffer=16384 free=0000000000000000 fill=00
//	xray basic
//
// order is little or big. flags is the whole flag word, frequency is in ticks per
// second, buffer is the size of a thread's buffer in bytes (fdr only), and free is the
// unused bytes behind it. A text without a header has bytes and zeros lines only: the
// file is not a trace.
//
// Records of basic logs. pid, cpu, tid and tsc are optional; the default is 0. Up to
// version 2 there is no pid:
//
//	enter 3 tsc=100 tid=1 pid=1 cpu=0     also: exit, tail-exit, enter-arg
//	arg 3 100 tid=1 pid=1                 function, value
//
// Records of FDR logs. A delta is +n, or -n for events, which can go back. The default
// is +0. metadata is a custom event of version 5 with metadata of this project's
// recorder. Its body may also be in backquotes:
//
//	extents 412
//	new-buffer 11                         thread id
//	wall-clock 703.124640                 seconds, 6 digits of microseconds
//	wall-clock 703 micros=1000000         if there are more than 999999
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
// Bytes that are not records:
//
//	bytes 0f0f 00                         pairs of hexadecimal digits
//	zeros 61                              at most 65536 in a line
//
// Recorders leave garbage in the unused bytes of a record. fill in the header is the
// value of these bytes. pad=aa is their value in one record, or pad has all of them.
//
// Three short forms:
//
//	extents auto     the size of the block: up to the next extents or thread line
//	                 or the end, without the bytes and zeros lines in front of it
//	zeros auto       up to the next multiple of the buffer size behind the header,
//	                 where blocks of version 1 start
//	thread 11 pid=7 wall=1.000020 cpu=0 tsc=1000
//	                 all records that begin a block in this version; missing fields
//	                 are 0
package tracetext

import (
	"encoding/binary"

	"github.com/xray-tools/xray/reader"
)

// maxZeros limits the output of a zeros line, and so the ratio of a trace to its text.
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

package fdrdump_test

import (
	"log"
	"os"

	"github.com/xray-tools/xray/convert/fdrdump"
	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader"
)

// The first records of a trace: offsets, bytes and meanings.
func Example() {
	trace, names, _, close := recorded.Open()
	defer close()
	header := trace.Header(0)
	first := func(yield func(reader.Record, error) bool) {
		n := 0
		for r, err := range trace.Records(0) {
			if n++; n > 4 || !yield(r, err) {
				return
			}
		}
	}
	if _, err := fdrdump.Annotate(os.Stdout, &header, first, fdrdump.Options{Names: names}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// fdr log, version 5, little-endian, 2596160789 ticks per second, buffers of 16384 bytes
	// 00000020  0f ce 24 00 00 00 00 00 00 .. .. .. .. .. .. ..  BufferExtents  9422 bytes, to 0x24fe
	// 00000030  01 00 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  NewBuffer      thread 0
	// 00000040  09 00 00 00 00 00 00 00 00 00 00 00 00 .. .. ..  WallClock      0.000000 s
	// 00000050  13 00 00 00 00 .. .. .. .. .. .. .. .. .. .. ..  PID            process 0
	// records: 4, blocks: 1, bytes of padding: 0, bytes damaged: 0
}

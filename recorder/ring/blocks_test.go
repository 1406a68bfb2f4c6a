package ring

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// A chunk may begin with the result of the exit behind it.
func TestResultsAtTheBeginning(t *testing.T) {
	const exit = 5<<4 | FunctionExit<<1
	words := []uint64{recordResult<<1 | 1, 77<<1 | 1, exit | 1000<<32, recordResult<<1 | 1, 78<<1 | 1, exit | 2000<<32}
	data := make([]byte, ChunkHeader)
	for _, w := range words {
		data = binary.LittleEndian.AppendUint64(data, w)
	}
	for since, want := range map[uint64][]uint64{0: {77, 78}, 1500: {78}, 2500: nil} {
		w := BlockWriter{Since: since}
		b := w.Chunk(new(Thread), &ChunkPlace{First: 500, Used: len(data)}, data)
		var got []uint64
		for p := b.Bytes; ; {
			i := bytes.Index(p, append([]byte("XRYM\x01\x00"), byte(reader.MetadataResult), 0))
			if i < 0 {
				break
			}
			got, p = append(got, binary.LittleEndian.Uint64(p[i+8:])), p[i+16:]
		}
		if len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
			t.Errorf("since %d: results %d, want %d", since, got, want)
		}
		if records := 2 * len(want); b.Records != uint64(records) {
			t.Errorf("since %d: %d records, want %d", since, b.Records, records)
		}
	}
}

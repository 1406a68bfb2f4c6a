package reader_test

import (
	"bytes"
	"compress/gzip"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// Data after a compressed stream do not damage it, but are reported unless they are padding zeros.
func TestTrailing(t *testing.T) {
	raw, err := tracetext.Parse("xray basic\nenter 1 tsc=7 tid=1 pid=1\nexit 1 tsc=9 tid=1 pid=1\n")
	if err != nil {
		t.Fatal(err)
	}
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packers := map[string]func([]byte) []byte{
		"gzip": func(b []byte) []byte {
			var packed bytes.Buffer
			w := gzip.NewWriter(&packed)
			w.Write(b)
			w.Close()
			return packed.Bytes()
		},
		"zstd": func(b []byte) []byte { return enc.EncodeAll(b, nil) },
	}
	// Streams that the packers do not write: a frame to skip, with which files of pzstd begin,
	// and one with a block of a thousand zeros.
	skipped := map[string][]byte{"zstd": []byte("\x50\x2a\x4d\x18\x04\x00\x00\x00skip")}
	zeros := map[string][]byte{"zstd": []byte("\x28\xb5\x2f\xfd\x00\x40\x03\x20\x00\x00")}
	for name, pack := range packers {
		// The last stream has parts that compress well and parts that do not compress.
		long := slices.Concat(raw[32:], make([]byte, 300_000))
		random := rand.New(rand.NewPCG(1, 2))
		for range 200_000 {
			long = append(long, byte(random.Uint32()))
		}
		whole := slices.Concat(skipped[name], pack(raw), pack(nil), zeros[name], pack(long))
		for _, test := range []struct {
			name, behind     string
			garbage, cut     int64
			bytes, lessBytes int
		}{
			{name: "nothing"},
			{name: "a zero", behind: "\x00"},
			{name: "zeros", behind: strings.Repeat("\x00", 100_000)},
			{name: "garbage", behind: "rest", garbage: 1, bytes: 4},
			{name: "a byte", behind: "x", garbage: 1, bytes: 1},
			{name: "zeros and garbage", behind: "\x00\x00\x00\x00\x00rest", garbage: 1, bytes: 9},
			{name: "long garbage", behind: strings.Repeat("rest", 50_000), garbage: 1, bytes: 200_000},
			{name: "the start of a stream", behind: string(pack(raw)[:3]), cut: 1},
			{name: "half a stream", behind: string(pack(long)[:100_000]), cut: 1},
			{name: "cut", lessBytes: 2, cut: 1},
		} {
			t.Run(name+"/"+test.name, func(t *testing.T) {
				data := append(whole[:len(whole)-test.lessBytes:len(whole)-test.lessBytes], test.behind...)
				tr, err := reader.Open(reader.Options{Stdin: bytes.NewReader(data)}, "-")
				if err != nil {
					t.Fatal(err)
				}
				defer tr.Close()
				if least := int64(len(raw) + len(long)); tr.Size(0) < least && test.lessBytes == 0 {
					t.Errorf("got %d bytes, want at least %d", tr.Size(0), least)
				}
				total := tr.Losses().Total
				if got := total[reader.TrailingGarbage]; got != (reader.LossTotal{Losses: test.garbage, Bytes: int64(test.bytes)}) {
					t.Errorf("got garbage %+v, want %d bytes", got, test.bytes)
				}
				if got := total[reader.TruncatedFile].Losses; got != test.cut {
					t.Errorf("got %d truncated files, want %d", got, test.cut)
				}
			})
		}
	}
}

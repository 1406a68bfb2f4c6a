package reader_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/framed"
	"github.com/xray-tools/xray/reader"
)

// allOf returns all that a trace says, or ok = false if a loss or an error says that it is damaged.
func allOf(data []byte) (events string, r *reader.Recording, h reader.Header, ok bool) {
	t, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "t")
	if err != nil {
		return "", nil, h, false
	}
	defer t.Close()
	var b bytes.Buffer
	for block, err := range t.Blocks(reader.ThreadOrder) {
		if err != nil {
			return "", nil, h, false
		}
		fmt.Fprint(&b, block.Thread, block.Events, block.Args, block.Payloads)
	}
	return b.String(), t.Recording(0), t.Header(0), t.Losses().Count() == 0
}

// A flipped bit is reported, or changes at most a field of the header that nothing else depends on.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	r := sample()
	r.Windows = nil // records outside of them are left out
	plain := write(r)
	for name, data := range map[string][]byte{"plain": plain, "compressed": framed.Compress(plain)} {
		wantEvents, wantRecording, _, ok := allOf(data)
		if !ok {
			t.Fatalf("%s: the undamaged trace has losses", name)
		}
		found := 0
		for bit := range 8 * len(data) {
			damaged := bytes.Clone(data)
			damaged[bit/8] ^= 1 << (bit % 8)
			events, recording, _, ok := allOf(damaged)
			if !ok {
				found++
			} else if events != wantEvents || !cmp.Equal(recording, wantRecording) {
				t.Errorf("%s: bit %d of byte %d of %d changes the contents", name, bit%8, bit/8, len(data))
			}
		}
		t.Logf("%s: %d of %d flipped bits are reported", name, found, 8*len(data))
	}
}

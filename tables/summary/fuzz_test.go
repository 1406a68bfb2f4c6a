package summary

import (
	"bytes"
	"testing"

	"github.com/xray-tools/xray/tables/parquetfile"
)

// example returns a small summary.
func example(t testing.TB) []byte {
	g := NewGroup(Key{Program: "a", Labels: NoLabels, Unit: Nanoseconds})
	root := g.child(0, 0, g.function(Function{Name: "main", File: "a.cc", Line: 3}))
	for i := range uint64(20) {
		addCall(g, g.child(root, 0, g.function(Function{Name: string(rune('a' + i))})), i*i*i, i%2 == 0)
	}
	addCall(g, g.foldsPath(Function{}, Function{Name: "f"}), 7, true)
	return encode(t, Memory{g})
}

// A flipped bit is found, or it changes nothing.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	data := example(t)
	for bit := range 8 * len(data) {
		damaged := bytes.Clone(data)
		damaged[bit/8] ^= 1 << (bit % 8)
		file, err := Open(bytes.NewReader(damaged), int64(len(damaged)), "a.parquet")
		if err != nil {
			continue
		}
		var source Source = file
		if !file.Ordered() {
			groups, err := file.Groups()
			if err != nil {
				continue
			}
			source = Memory(groups)
		}
		var b bytes.Buffer
		w := NewWriter(&b)
		if Merge([]Source{source}, 0, w.Group) == nil && (w.Close() != nil || !bytes.Equal(b.Bytes(), data)) {
			t.Errorf("bit %d of byte %d of %d changes the contents", bit%8, bit/8, len(data))
		}
	}
}

// FuzzOpen reads damaged summaries. Their checksums are ignored, because few changes would pass.
func FuzzOpen(f *testing.F) {
	data := example(f)
	f.Add(data, 0, byte(0), 0, byte(0), true)
	f.Add(data, 100, byte(7), 900, byte(255), false)
	// Small changes of a valid file reach deeper than random bytes.
	f.Fuzz(func(t *testing.T, data []byte, at1 int, to1 byte, at2 int, to2 byte, ordered bool) {
		data = bytes.Clone(data)
		if at1 >= 0 && at1 < len(data) {
			data[at1] ^= to1
		}
		if at2 >= 0 && at2 < len(data) {
			data[at2] ^= to2
		}
		file, err := open(parquetfile.OpenUnchecked, bytes.NewReader(data), int64(len(data)), "a.parquet")
		if err != nil {
			return
		}
		if !ordered {
			file.meta = nil
		}
		if !file.Ordered() {
			_, _ = file.Groups()
			return
		}
		set := NewSet([]Source{file}, 1<<16)
		_, _ = set.Clock()
		_ = Merge([]Source{file}, 1<<16, func(g *Group) error {
			set.sums(g)
			return nil
		})
	})
}

package reader_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
)

// profilingText writes a file of profiling mode. The blocks are "THREAD PATH=COUNT,TICKS ...". A
// path lists its functions from the outermost to the innermost, for example 1/2/3.
func profilingText(t testing.TB, order binary.AppendByteOrder, blocks ...string) []byte {
	t.Helper()
	b := order.AppendUint64(nil, 0x7872617970726f66)
	for _, v := range []uint64{0x20180424, 1_700_000_000_000_000_000, 77} {
		b = order.AppendUint64(b, v)
	}
	for number, text := range blocks {
		words := strings.Fields(text)
		var body []byte
		for _, word := range words[1:] {
			path, sums, _ := strings.Cut(word, "=")
			ids := strings.Split(path, "/")
			slices.Reverse(ids)
			for _, id := range append(ids, "0") {
				var fn int32
				if _, err := fmt.Sscan(id, &fn); err != nil {
					t.Fatal(err)
				}
				body = order.AppendUint32(body, uint32(fn))
			}
			var count uint64
			var ticks int64
			if _, err := fmt.Sscanf(sums, "%d,%d", &count, &ticks); err != nil {
				t.Fatal(err)
			}
			body = order.AppendUint64(order.AppendUint64(body, count), uint64(ticks))
		}
		var thread uint64
		if _, err := fmt.Sscan(words[0], &thread); err != nil {
			t.Fatal(err)
		}
		b = order.AppendUint32(order.AppendUint32(b, uint32(16+len(body))), uint32(number))
		b = append(order.AppendUint64(b, thread), body...)
	}
	return b
}

func openProfiling(b []byte) (*reader.Trace, error) {
	return reader.OpenReaderAt(bytes.NewReader(b), int64(len(b)), "f")
}

// profileText is the inverse of profilingText. Paths on which no call ended have no sums.
func profileText(profiles []reader.Profile) []string {
	var list []string
	for _, p := range profiles {
		text := fmt.Sprint(p.Thread)
		names := make([]string, len(p.Paths))
		for i, path := range p.Paths {
			names[i] = fmt.Sprint(path.Func)
			if path.Parent >= 0 {
				names[i] = names[path.Parent] + "/" + names[i]
			}
			text += " " + names[i]
			if path.Count+path.Total > 0 {
				text += fmt.Sprintf("=%d,%d", path.Count, path.Total)
			}
		}
		list = append(list, text)
	}
	return list
}

func TestProfiling(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		tr, err := openProfiling(profilingText(t, order,
			"5 1/2=3,40 1=1,100 1/2=2,5 1/2/-16777215=1,2", "6 9/8/7=1,10", "5 1=1,7"))
		if err != nil {
			t.Fatal(err)
		}
		if h := tr.Header(0); h.Type != reader.Profiling || h.CycleFrequency != 0 {
			t.Errorf("got header %+v", h)
		}
		r := tr.Recording(0)
		want := []string{"5 1=2,107 1/2=5,45 1/2/-16777215=1,2", "6 9 9/8 9/8/7=1,10"}
		if diff := cmp.Diff(want, profileText(r.Profiles)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		few := strings.Repeat(" 1=1,3 1/2=1,1", 15)
		if tr, err := openProfiling(profilingText(t, order, "5"+few, "5"+few)); err != nil || tr.Losses().Count() != 0 {
			t.Errorf("few outermost calls: got error %v, losses %v", err, tr.Losses().Samples())
		}
		if r.Profiles[1].Process != 77 || !r.Foreign() || tr.Losses().Count() != 0 {
			t.Errorf("got process %d, foreign %v, losses %v", r.Profiles[1].Process, r.Foreign(), tr.Losses().Samples())
		}
		for range tr.Blocks(reader.TimeOrder) {
			t.Error("got events from a profile")
		}
	}
}

func TestDamagedProfiling(t *testing.T) {
	le := binary.LittleEndian
	text := []string{"5 1=1,100 1/2=2,50", "6 3=4,5"}
	whole := profilingText(t, le, text...)
	second := len(whole) - 40
	all := []string{"5 1=1,100 1/2=2,50", "6 3=4,5"}
	put := func(offset int, v uint32) []byte {
		b := slices.Clone(whole)
		le.PutUint32(b[offset:], v)
		return b
	}
	long := "7 " + strings.Repeat("1/", 4096) + "1=1,1 2=1,1"
	for _, test := range []struct {
		name  string
		data  []byte
		want  []string
		cause reader.Cause
		text  string
	}{
		{"newer version", put(8, 0x20250101), all, reader.NewerVersion, "version 0x20250101"},
		{"cut in a block", whole[:len(whole)-1], []string{all[0], "6"}, reader.TruncatedFile, "declares 40 bytes, but the file ends after 39"},
		{"cut in a path", whole[:second+18], []string{all[0], "6"}, reader.TruncatedFile, "declares 40 bytes, but the file ends after 18"},
		{"cut in a block's header", whole[:second+15], all[:1], reader.TruncatedFile, "ends in its header"},
		{"block without a header", put(second, 15), all[:1], reader.BadBlock, "declares 15 bytes"},
		{"block too small", put(32, 16+24+8), []string{"5 1=1,100"}, reader.BadRecord, "has no end"},
		{"function 0", put(second+16, 0), []string{all[0], "6"}, reader.BadRecord, "no function"},
		{"no end", put(second+20, 7), []string{all[0], "6"}, reader.BadRecord, "has no"},
		{"function that stands for others", put(second+16, 0x80000000), []string{all[0], "6"}, reader.BadRecord, "function -2147483648"},
		{"too deep", profilingText(t, le, long, all[1]), []string{"7", all[1]}, reader.BadRecord, "more than 4096 functions"},
		{"negative time", profilingText(t, le, "5 1=2,-3 1/2=1,1"), []string{"5 1=2,0 1/2=1,1"}, reader.BadTime, "2 calls take -3 ticks"},
		{"a path for each outermost call", profilingText(t, le, "5"+strings.Repeat(" 1=1,3 1/2=1,1", 16)), []string{"5 1=16,48 1/2=16,16"}, reader.ManyRoots, "function 1 is there 16 times"},
	} {
		t.Run(test.name, func(t *testing.T) {
			tr, err := openProfiling(test.data)
			if err != nil {
				t.Fatal(err)
			}
			got := profileText(tr.Recording(0).Profiles)
			if test.name != "block too small" { // not followed by a block
				if diff := cmp.Diff(test.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			} else if got[0] != test.want[0] {
				t.Errorf("got %q", got)
			}
			if n := tr.Losses().Total[test.cause].Losses; n < 1 {
				t.Errorf("got %d losses of %v", n, test.cause)
			}
			if loss, ok := tr.Losses().First(); !ok || !strings.Contains(fmt.Sprint(tr.Losses().Samples()), test.text) {
				t.Errorf("got loss %v, want %q in it", loss, test.text)
			}
		})
	}
}

func TestProfilingRefused(t *testing.T) {
	if _, err := openProfiling(profilingText(t, binary.LittleEndian)[:20]); !errors.Is(err, reader.ErrNotTrace) || !strings.Contains(err.Error(), "has 20") {
		t.Errorf("file of 20 bytes: got error %v", err)
	}
	tr, err := openProfiling(profilingText(t, binary.LittleEndian))
	if err != nil || len(tr.Recording(0).Profiles) != 0 {
		t.Errorf("file with only a header: got error %v", err)
	}
}

// The threads of a file are limited as in other traces, and so are its paths.
func TestProfilingLimits(t *testing.T) {
	var b bytes.Buffer
	b.Write(profilingText(t, binary.LittleEndian))
	var block []byte
	for fn := range 1<<20 + 5 {
		block = binary.LittleEndian.AppendUint32(block, uint32(fn+1))
		block = append(block, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	head := make([]byte, 16)
	binary.LittleEndian.PutUint32(head, uint32(16+len(block)))
	b.Write(head)
	b.Write(block)
	tr, err := openProfiling(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if n := tr.Losses().Total[reader.BadRecord].Records; n != 5 || len(tr.Recording(0).Profiles[0].Paths) != 1<<20 {
		t.Errorf("got %d lost paths, want 5", n)
	}

	b.Reset()
	b.Write(profilingText(t, binary.LittleEndian))
	for thread := range reader.DefaultMaxThreads + 1 {
		binary.LittleEndian.PutUint32(head, 16)
		binary.LittleEndian.PutUint64(head[8:], uint64(thread))
		b.Write(head)
	}
	var many *reader.TooManyThreadsError
	if _, err := openProfiling(b.Bytes()); !errors.As(err, &many) {
		t.Errorf("too many threads: got error %v", err)
	}
}

// Any bytes give ordered paths or losses.
func FuzzProfiling(f *testing.F) {
	f.Add(profilingText(f, binary.LittleEndian, "5 1/2=3,40 1=1,100 1/2=2,5", "6 9/8/7=1,10 1=1,-1")[32:])
	f.Add(profilingText(f, binary.LittleEndian, "5 1/1/1/1=1,1", "5 1=0,0")[32:])
	head := profilingText(f, binary.LittleEndian)
	f.Fuzz(func(t *testing.T, blocks []byte) {
		data := append(slices.Clone(head), blocks...)
		tr, err := openProfiling(data)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range tr.Recording(0).Profiles {
			for i, path := range p.Paths {
				if path.Parent >= i || path.Func == 0 || path.Func == reader.Folded || path.Total > 1<<63 {
					t.Fatalf("path %d: got %+v", i, path)
				}
			}
		}
		if n := tr.Losses().Count(); n == 0 && len(blocks) > 0 && len(tr.Recording(0).Profiles) == 0 {
			t.Error("got blocks without threads or losses")
		}
	})
}

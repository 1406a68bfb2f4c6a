package reader_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// mixedBasicLog returns a log of several chunks and the events of each thread in order. Threads
// take turns after runs of many lengths, with arguments and zeros between records.
func mixedBasicLog(t *testing.T) (*reader.Trace, map[int32][]string) {
	var text strings.Builder
	text.WriteString("xray basic\n")
	want := make(map[int32][]string)
	for i, n := 0, 0; n < 25_000; i++ {
		tid := int32(1 + i%5)
		add := func(kind, arg string) {
			n++
			fmt.Fprintf(&text, "%s 7 tsc=%d tid=%d pid=1\n", kind, n, tid)
			s := fmt.Sprintf("1/%d cpu0 %s #7 @%d", tid, kind, n)
			if arg != "" {
				fmt.Fprintf(&text, "arg 7 %s tid=%d pid=1\n", arg, tid)
				s += " arg=" + arg
			}
			want[tid] = append(want[tid], s)
		}
		for range 1 + i%45 {
			add([]string{"enter", "exit", "tail-exit"}[n%3], "")
		}
		if i%11 == 0 {
			add("enter-arg", "5")
		}
		if i%17 == 0 { // without its argument
			add("enter-arg", "")
		}
		if i%13 == 0 {
			text.WriteString("zeros 32\n")
		}
		if i%400 == 0 { // longer than a block
			for range 1500 {
				add("exit", "")
			}
		}
	}
	return open(t, text.String()), want
}

// The functions of a trace are those that are entered, however its records come.
func TestFunctions(t *testing.T) {
	t.Parallel()
	kinds := []string{"enter 7", "enter 300", "exit 8", "exit 7", "enter-arg 40", "enter 5", "tail-exit 9"}
	var fdr, basic strings.Builder
	fdr.WriteString("xray fdr\nthread 1 pid=1 tsc=0\n")
	basic.WriteString("xray basic\n")
	for i, kind := range kinds {
		fmt.Fprintf(&fdr, "%s +1\n", kind)
		fmt.Fprintf(&basic, "%s tsc=%d tid=1 pid=1\n", kind, i+1)
	}
	for _, text := range []string{fdr.String(), basic.String()} {
		tr := open(t, text)
		for _, each := range []func(int, func(int, *reader.Block) error) error{tr.Each, tr.EachPacked} {
			seen, others := make([]bool, 200), make(map[reader.FuncID]bool)
			if err := each(1, func(_ int, b *reader.Block) error {
				b.Functions(seen, func(fn reader.FuncID) { others[fn] = true })
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			for fn, is := range seen {
				if is {
					others[reader.FuncID(fn)] = true
				}
			}
			if diff := cmp.Diff(map[reader.FuncID]bool{5: true, 7: true, 40: true, 300: true}, others); diff != "" {
				t.Errorf("%s(-want +got):\n%s", text, diff)
			}
		}
	}
}

// Each thread's events are in order, however many goroutines decode a log.
func TestBasicThreadsStayInOrder(t *testing.T) {
	tr, want := mixedBasicLog(t)
	sameInAllOrders(t, tr)
	for _, n := range []int{1, 2, 3, 8} {
		for _, each := range []func(int, func(int, *reader.Block) error) error{tr.Each, tr.EachPacked} {
			var mu sync.Mutex
			got := make(map[int32][]string)
			shards := make(map[int32]int)
			err := each(n, func(shard int, b *reader.Block) error {
				b = unpacked(b)
				mu.Lock()
				defer mu.Unlock()
				if first, ok := shards[b.Thread.Thread]; ok && first != shard {
					t.Errorf("thread %d came on shards %d and %d", b.Thread.Thread, first, shard)
				}
				shards[b.Thread.Thread] = shard
				for i := range b.Events {
					got[b.Thread.Thread] = append(got[b.Thread.Thread], line(b, i))
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d shards (-want +got):\n%s", n, diff)
			}
			if done, total := tr.Progress(); done < total-32 {
				t.Errorf("%d shards: got progress %d of %d bytes", n, done, total)
			}
		}
	}
}

// An error of any goroutine ends the pass at any time.
func TestBasicEachEndsWithAnError(t *testing.T) {
	b, err := tracetext.Parse("xray basic\n" + strings.Repeat("enter 1 tsc=7 tid=1 pid=1\n", 2000) +
		strings.Repeat("enter 1 tsc=7 tid=2 pid=1\n", 2000) + strings.Repeat("enter 1 tsc=7 tid=3 pid=1\n", 2000))
	if err != nil {
		t.Fatal(err)
	}
	// More data than can be split and waiting at once.
	tr := openBytes(t, append(b[:32:32], bytes.Repeat(b[32:], 50)...))
	stop := errors.New("stop")
	for _, n := range []int{1, 2, 3} {
		for _, after := range []int{0, 1, 5} {
			seen := make([]int, n)
			err := tr.Each(n, func(shard int, b *reader.Block) error {
				if seen[shard]++; shard == n-1 && seen[shard] > after {
					return stop
				}
				return nil
			})
			if err != stop {
				t.Errorf("%d shards, after %d blocks: got error %v", n, after, err)
			}
		}
	}
}

// If a file that is not mapped became shorter, it ends early, and the missing bytes are counted.
func TestBasicEndsEarly(t *testing.T) {
	b, err := tracetext.Parse("xray basic\n" + strings.Repeat("enter 1 tsc=7 tid=1 pid=1\n", 10))
	if err != nil {
		t.Fatal(err)
	}
	tr, err := reader.OpenReaderAt(bytes.NewReader(b), int64(len(b))+5*32+1, "test.xray")
	if err != nil {
		t.Fatal(err)
	}
	if got := events(t, tr, reader.FileOrder); len(got) != 10 {
		t.Errorf("got %d events, want 10", len(got))
	}
	if diff := cmp.Diff([]string{"truncated-file at 352: 161 bytes, 6 records"}, losses(tr)); diff != "" {
		t.Errorf("losses (-want +got):\n%s", diff)
	}
	sameInAllOrders(t, tr)
}

// Copies are found as far back as the reader remembers runs. The memory for runs wraps.
func TestBasicCopiesOfManyRuns(t *testing.T) {
	const runs = 100
	var text strings.Builder
	text.WriteString("xray basic\n")
	for i := range runs {
		fmt.Fprintf(&text, "enter 1 tsc=%d tid=1 pid=1\nenter 2 tsc=%d tid=2 pid=1\n", 10+i, 10+i)
	}
	text.WriteString("enter 3 tsc=500 tid=3 pid=3\n")
	for back := 1; back <= 65; back++ {
		again := fmt.Sprintf("enter 1 tsc=%d tid=1 pid=1\n", 10+runs-back)
		tr := open(t, text.String()+again)
		want := 2*runs + 1
		if back > 64 {
			want++
		}
		if got := events(t, tr, reader.ThreadOrder); len(got) != want {
			t.Errorf("a copy of the run %d back: got %d events, want %d", back, len(got), want)
		}
		if n := len(losses(tr)); n != 2*runs+2-want {
			t.Errorf("a copy of the run %d back: got losses %v", back, losses(tr))
		}
	}
}

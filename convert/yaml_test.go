package convert

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
)

// Threads with the same IDs in two traces remain two.
func TestYAMLKeepsTracesApart(t *testing.T) {
	var out bytes.Buffer
	y := NewYAML(&out, Options{})
	for file := range 2 {
		err := y.Block(&reader.Block{
			Thread: reader.Thread{File: int32(file), Process: 7, Thread: 1}, Index: file,
			Events: []reader.Event{{TSC: 5, Func: 1}, {TSC: 6, Func: 1, CPU: 1, Kind: reader.Exit}},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := y.Close(); err != nil {
		t.Fatal(err)
	}
	for _, process := range []string{"process: 7,", "process: 4194304,"} {
		if n := strings.Count(out.String(), process); n != 2 {
			t.Errorf("got %d records of %q, want 2:\n%s", n, process, out.String())
		}
	}
}

func TestYAML(t *testing.T) {
	blocks := []*reader.Block{
		{
			Thread: reader.Thread{Process: 77, Thread: 101},
			Events: []reader.Event{
				{TSC: 2000, Func: 1, CPU: 3},
				{TSC: 2010, Func: 2, CPU: 3, Kind: reader.EnterArg, Side: true},
				{TSC: 2020, Func: 2, CPU: 65535, Kind: reader.Exit},
				{TSC: 1795216120777737896, Func: 2, CPU: 4, Kind: reader.Custom, Side: true},
				{TSC: 1795216120777737897, Func: 2, CPU: 4, Kind: reader.Typed, Side: true},
				{TSC: 1795216120777737898, Func: 1, CPU: 4, Kind: reader.TailExit},
			},
			Args: []reader.Arg{{Event: 1, Value: math.MaxUint64}, {Event: 1, Value: 9}},
			Payloads: []reader.Payload{
				{Event: 3, Data: []byte("hello, world")},
				{Event: 4, Type: 513, Data: []byte{0, 1, 0xFF}},
			},
		},
		{}, // empty, so it has no effect
		{Index: 1, Events: []reader.Event{{Func: -16777213}}},
	}
	const header = `---
header:
  version:         5
  type:            1
  constant-tsc:    true
  nonstop-tsc:     false
  cycle-frequency: 1000000000
`
	opts := Options{Header: reader.Header{Version: 5, Type: reader.FDR, ConstantTSC: true, CycleFrequency: 1_000_000_000}}
	tests := []struct {
		name   string
		names  names
		blocks []*reader.Block
		want   string
	}{
		{"ids", nil, blocks, header + `records:
  - { type: 0, func-id: 1, function: '1', cpu: 3, thread: 101, process: 77, kind: function-enter, tsc: 2000, data: '' }
  - { type: 0, func-id: 2, function: '2', args: [ 18446744073709551615, 9 ], cpu: 3, thread: 101, process: 77, kind: function-enter-arg, tsc: 2010, data: '' }
  - { type: 0, func-id: 2, function: '2', cpu: 65535, thread: 101, process: 77, kind: function-exit, tsc: 2020, data: '' }
  - { type: 0, func-id: 2, function: '2', cpu: 4, thread: 101, process: 77, kind: custom-event, tsc: 1795216120777737896, data: 'hello, world' }
  - { type: 513, func-id: 2, function: '2', cpu: 4, thread: 101, process: 77, kind: typed-event, tsc: 1795216120777737897, data: "\0\x01\xFF" }
  - { type: 0, func-id: 1, function: '1', cpu: 4, thread: 101, process: 77, kind: function-tail-exit, tsc: 1795216120777737898, data: '' }
  - { type: 0, func-id: -16777213, function: '-16777213', cpu: 0, kind: function-enter, tsc: 0, data: '' }
...
`},
		{"names", names{1: "main", 7: "not called"}, []*reader.Block{
			{Events: []reader.Event{{Func: 1}, {Func: 2}, {Func: 1, Kind: reader.Exit}}},
		}, header + `records:
  - { type: 0, func-id: 1, function: main, cpu: 0, kind: function-enter, tsc: 0, data: '' }
  - { type: 0, func-id: 2, function: '#2', cpu: 0, kind: function-enter, tsc: 0, data: '' }
  - { type: 0, func-id: 1, function: main, cpu: 0, kind: function-exit, tsc: 0, data: '' }
...
`},
		{"name that is not UTF-8", names{1: "a\xff"}, []*reader.Block{{Events: []reader.Event{{Func: 1}}}}, header + `records:
  - { type: 0, func-id: 1, function: "a` + "\uFFFD" + `", cpu: 0, kind: function-enter, tsc: 0, data: '' }
...
`},
		{"no records", nil, []*reader.Block{{}}, header + "records:         []\n...\n"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opts := opts
			if test.names != nil {
				opts.Names = test.names
			}
			if diff := cmp.Diff(test.want, writeBlocks(t, NewYAML, opts, test.blocks...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// genBlocks draws blocks of a few threads, with unmatched exits and calls that stay open.
func genBlocks(t *rapid.T, processes bool) []*reader.Block {
	tsc := rapid.Uint64Range(0, 1<<40).Draw(t, "base")
	var blocks []*reader.Block
	for range rapid.IntRange(0, 6).Draw(t, "blocks") {
		index := rapid.IntRange(0, 1).Draw(t, "thread")
		b := &reader.Block{Index: index, Thread: reader.Thread{Thread: int32(index) * 17}}
		if processes {
			b.Thread.Process = 99
		}
		for i := range rapid.IntRange(0, 8).Draw(t, "events") {
			tsc += rapid.Uint64Range(1, 5000).Draw(t, "step")
			e := reader.Event{
				TSC:  tsc,
				Func: reader.FuncID(rapid.IntRange(-3, 3).Draw(t, "func")),
				CPU:  rapid.Uint16Range(0, 2).Draw(t, "cpu"),
				Kind: reader.Kind(rapid.IntRange(0, 5).Draw(t, "kind")),
			}
			switch e.Kind {
			case reader.EnterArg:
				e.Side = true
				for range rapid.IntRange(1, 3).Draw(t, "args") {
					b.Args = append(b.Args, reader.Arg{Event: i, Value: rapid.Uint64().Draw(t, "arg")})
				}
			case reader.Custom, reader.Typed:
				e.Side = true
				p := reader.Payload{Event: i, Data: []byte(rapid.StringMatching("[a-z:\n]{0,5}").Draw(t, "data"))}
				if e.Kind == reader.Typed {
					p.Type = rapid.Uint16().Draw(t, "type")
				}
				b.Payloads = append(b.Payloads, p)
			}
			b.Events = append(b.Events, e)
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// TestYAMLIsLLVMs lets llvm-xray read the output and write it again.
func TestYAMLIsLLVMs(t *testing.T) {
	testenv.Need(t, "llvm-xray-22")
	file := filepath.Join(t.TempDir(), "trace.yaml")
	checkFew(t, func(t *rapid.T) {
		// llvm-xray reads only this version back.
		opts := Options{Header: reader.Header{
			Version: 1, Type: reader.Type(rapid.IntRange(0, 1).Draw(t, "type")),
			ConstantTSC: rapid.Bool().Draw(t, "constant"), NonstopTSC: rapid.Bool().Draw(t, "nonstop"),
			CycleFrequency: rapid.Uint64().Draw(t, "frequency"),
		}}
		got := writeBlocks(t, NewYAML, opts, genBlocks(t, true)...)
		want := llvmConvert(t, file, got, "-f", "yaml", "-sort=false")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-llvm-xray +this package):\n%s", diff)
		}
	})
}

// TestYAMLRoundTrip reads the output and writes it again. Payloads are arbitrary bytes.
func TestYAMLRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		opts := Options{Header: reader.Header{Version: uint16(rapid.IntRange(1, 5).Draw(t, "version")), CycleFrequency: 7}}
		blocks := genBlocks(t, true)
		var payloads [][]byte
		for _, b := range blocks {
			for i := range b.Payloads {
				b.Payloads[i].Data = []byte(genHostileName.Draw(t, "data"))
				payloads = append(payloads, b.Payloads[i].Data)
			}
		}
		want := writeBlocks(t, NewYAML, opts, blocks...)
		trace, err := reader.OpenReaderAt(strings.NewReader(want), int64(len(want)), "trace.yaml")
		if err != nil {
			t.Fatalf("%v\n%s", err, want)
		}
		var read []*reader.Block
		var payloadsRead [][]byte
		for b, err := range trace.Blocks(reader.FileOrder) {
			if err != nil {
				t.Fatal(err)
			}
			copied := &reader.Block{Thread: b.Thread, Index: b.Index, Events: slices.Clone(b.Events), Args: slices.Clone(b.Args)}
			for _, p := range b.Payloads {
				p.Data = slices.Clone(p.Data)
				copied.Payloads = append(copied.Payloads, p)
				payloadsRead = append(payloadsRead, p.Data)
			}
			read = append(read, copied)
		}
		if diff := cmp.Diff(want, writeBlocks(t, NewYAML, Options{Header: trace.Header(0)}, read...)); diff != "" {
			t.Fatalf("(-written +read back):\n%s", diff)
		}
		if !slices.EqualFunc(payloads, payloadsRead, bytes.Equal) {
			t.Fatalf("payloads %q: read back %q", payloads, payloadsRead)
		}
	})
}

// TestYAMLOfCorpus compares whole traces with the output of llvm-xray.
func TestYAMLOfCorpus(t *testing.T) {
	for trace, output := range corpus(t, ".convert-nosort.yaml.txt") {
		t.Run(filepath.Base(trace), func(t *testing.T) {
			got := writeTrace(t, NewYAML, trace, reader.FileOrder)
			want := strings.TrimSuffix(output, "[exit status 0]\n")
			gotLines, wantLines := strings.SplitAfter(got, "\n"), strings.SplitAfter(want, "\n")
			if strings.HasPrefix(filepath.Base(trace), "fdr") {
				// llvm-xray writes threads in the order of a hash table.
				slices.Sort(gotLines)
				slices.Sort(wantLines)
			}
			if diff := cmp.Diff(wantLines, gotLines); diff != "" {
				t.Errorf("(-llvm-xray +this package):\n%s", diff)
			}
		})
	}
}

// corpus returns the outputs of llvm-xray with this suffix by the paths of their traces.
func corpus(t *testing.T, suffix string) map[string]string {
	dir := os.Getenv("XRAY_CORPUS")
	if dir == "" {
		t.Skip("XRAY_CORPUS is not set")
	}
	paths, err := filepath.Glob(filepath.Join(dir, "samples/outputs/*"+suffix))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no outputs %s in XRAY_CORPUS (%v)", suffix, err)
	}
	outputs := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		trace := strings.TrimSuffix(filepath.Base(path), suffix) + ".xray"
		outputs[filepath.Join(dir, "samples/traces", trace)] = string(text)
	}
	return outputs
}

// writeTrace runs a trace file through a writer.
func writeTrace[W blockWriter](t *testing.T, open func(io.Writer, Options) W, path string, order reader.Order) string {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	var out strings.Builder
	w := open(&out, Options{Header: trace.Header(0)})
	for b, err := range trace.Blocks(order) {
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Block(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestYAMLPayloadsAreLLVMs lets llvm-xray write random payloads and compares the text.
func TestYAMLPayloadsAreLLVMs(t *testing.T) {
	testenv.Need(t, "llvm-xray-22")
	file := filepath.Join(t.TempDir(), "trace.yaml")
	letters := rapid.SampledFrom([]rune("aAbe019.+-xo_^ \t\n\r\x00\x1b\x7f'\"\\/:#{}[]&*!|>%@`?~=\u0085\u00a0\u00e9\u2028\u200b\U0001F600"))
	checkFew(t, func(t *rapid.T) {
		block := &reader.Block{}
		for i, s := range rapid.SliceOfN(rapid.StringOfN(letters, 0, 6, -1), 50, 50).Draw(t, "payloads") {
			block.Events = append(block.Events, reader.Event{Kind: reader.Custom, Side: true})
			block.Payloads = append(block.Payloads, reader.Payload{Event: i, Data: []byte(s)})
		}
		got := writeBlocks(t, NewYAML, Options{Header: reader.Header{Version: 1}}, block)
		// Write llvm-xray's input entirely in escapes, independent of the code under test.
		var in strings.Builder
		header, _, _ := strings.Cut(got, "records:")
		in.WriteString(header + "records:\n")
		for _, p := range block.Payloads {
			in.WriteString("  - { type: 0, cpu: 0, kind: custom-event, tsc: 0, data: \"")
			for _, r := range string(p.Data) {
				fmt.Fprintf(&in, "\\U%08X", r)
			}
			in.WriteString("\" }\n")
		}
		want := llvmConvert(t, file, in.String(), "-f", "yaml")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-llvm-xray +this package):\n%s", diff)
		}
	})
}

// checkFew is rapid.Check for properties that start a process each time.
func checkFew(t *testing.T, prop func(*rapid.T)) {
	t.Helper()
	checks := flag.Lookup("rapid.checks").Value
	all := checks.String()
	n, err := strconv.Atoi(all)
	if err == nil {
		err = checks.Set(strconv.Itoa(max(n/5, 1)))
	}
	if err != nil {
		t.Fatal(err)
	}
	defer checks.Set(all)
	rapid.Check(t, prop)
}

// llvmConvert converts trace YAML with llvm-xray. It writes the YAML to file.
func llvmConvert(t rapid.TB, file, trace string, args ...string) string {
	t.Helper()
	if err := os.WriteFile(file, []byte(trace), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("llvm-xray-22", append([]string{"convert", file}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("llvm-xray-22: %v\n%s", err, out)
	}
	return string(out)
}

//go:build linux && amd64

package recorder_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/args/value"
	"github.com/xray-tools/xray/recorder/build"
	"github.com/xray-tools/xray/symbolize"
)

// step is a step of the machine in runtime/values.c.
type step struct {
	op, a uint8
	b     uint16
	k     int32
}

const (
	opReg, opXMM, opCFA, opAdd, opLoad, opShl, opShr, opSar, opMove, opSwap, opJZ, opJump, opIndex, opAnd = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14

	opScalar, opWide, opBytes, opCString, opNone = 20, 21, 22, 23, 24
)

func reg(n uint8) step                 { return step{op: opReg, a: n} }
func loads(size uint8, k int32) step   { return step{op: opLoad, a: size, k: k} }
func op(op uint8) step                 { return step{op: op} }
func with(op uint8, k int32) step      { return step{op: op, k: k} }
func vector(n uint8, half uint16) step { return step{opXMM, n, half, 0} }

const rax, rdx, rsi, rdi = 0, 1, 4, 5

// valueSteps are those of one value.
type valueSteps []step

func scalar(list ...step) valueSteps { return append(list, op(opScalar)) }

// recordedValues are the values of a function at its entry and at its exits.
type recordedValues struct{ entry, exit []valueSteps }

// valuesOf are those of the functions of testdata/values.cc.
var valuesOf = map[string]recordedValues{
	"ints":    {[]valueSteps{scalar(reg(rdi)), scalar(reg(rsi), with(opShl, 32), with(opSar, 32)), scalar(reg(rdx), with(opAnd, 255))}, []valueSteps{scalar(reg(rax))}},
	"floats":  {[]valueSteps{scalar(vector(0, 0)), scalar(vector(1, 0))}, []valueSteps{scalar(vector(0, 0))}},
	"string":  {[]valueSteps{{reg(rdi), with(opCString, 32)}}, nil},
	"lengthy": {[]valueSteps{{reg(rdi), with(opCString, 4096)}}, nil},
	"object": {[]valueSteps{
		scalar(reg(rdi), loads(4, 0)),
		scalar(reg(rdi), loads(2, 4)),
		scalar(reg(rdi), with(opAdd, 8), loads(1, -2)),
		{reg(rdi), loads(8, 8), with(opJZ, 2), loads(4, 0), op(opScalar), {op: opNone, a: 1}},
		{reg(rdi), loads(8, 16), op(opMove), reg(rdi), loads(8, 24), with(opBytes, 32)},
	}, nil},
	"many": {[]valueSteps{scalar(with(opCFA, 0), loads(8, 0)), scalar(with(opCFA, 8), loads(2, 0), with(opShl, 48), with(opSar, 48))}, []valueSteps{scalar(reg(rax))}},
	"wide": {[]valueSteps{{reg(rsi), op(opMove), reg(rdi), op(opWide)}}, []valueSteps{{reg(rdx), op(opMove), reg(rax), op(opWide)}}},
	"both": {[]valueSteps{{reg(rdi), op(opMove), reg(rsi), with(opBytes, 3)}},
		[]valueSteps{scalar(reg(rdx)), {reg(rax), op(opMove), reg(rdx), with(opBytes, 32)}}},
	"thrower": {[]valueSteps{scalar(reg(rdi))}, []valueSteps{scalar(reg(rax))}},
	"loop":    {[]valueSteps{scalar(reg(rdi))}, nil},
	"logging": {[]valueSteps{scalar(reg(rdi)), {reg(rsi), with(opCString, 32)}}, nil},
	"priced":  {[]valueSteps{{reg(rdi), with(opCString, 32)}}, nil},
}

// line returns the filter's line of a function.
func (v *recordedValues) line(id reader.FuncID, describes string) string {
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(id))
	b = le.AppendUint16(le.AppendUint16(b, uint16(len(v.entry))), uint16(len(v.exit)))
	for _, one := range slices.Concat(v.entry, v.exit) {
		b = append(le.AppendUint16(b, uint16(len(one))), 0, 0, 0, 0, 0, 0)
		for _, s := range one {
			b = le.AppendUint32(le.AppendUint16(append(b, s.op, s.a), s.b), uint32(s.k))
		}
	}
	return "values " + hex.EncodeToString(b) + " " + describes + "\n"
}

// valuesFilter writes a filter that selects all functions of a program, and the values of some.
func valuesFilter(t *testing.T, program string) string {
	t.Helper()
	table, err := symbolize.Load(program, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	path, err := filepath.EvalSymlinks(program)
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("object %s\n1-%d\n", path, len(table.Map().Functions))
	for _, fn := range table.Map().Functions {
		name := symbolize.Label(table, fn.ID)
		if v, ok := valuesOf[name]; ok {
			text += v.line(fn.ID, fmt.Sprintf(`"entry":[{"expression":%q}]`, name))
		}
	}
	text += `unread {"function":"nothing","expression":"y","why":"there is no y"}` + "\n"
	filter := filepath.Join(t.TempDir(), "filter")
	if err := os.WriteFile(filter, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return filter
}

// valueLines is a sink that has a line for each call with values: arguments, what the events say, and the result.
type valueLines struct {
	names symbolize.Names
	lines []string
}

func (s *valueLines) Calls(b *calls.Batch) error {
	results, values := b.Results, b.Values
	for i := range b.Calls {
		line := symbolize.Label(s.names, b.Calls[i].Func)
		for _, a := range b.ArgsOf(i) {
			line += fmt.Sprintf(" %d", int64(a.Value))
		}
		for ; len(values) > 0 && values[0].Call == i; values = values[1:] {
			v := &values[0]
			line += fmt.Sprintf(" [%d", v.Index)
			if v.Exit {
				line += " exit"
			}
			for _, f := range []struct {
				flag uint16
				text string
			}{{value.Truncated, "truncated"}, {value.Unreadable, "unreadable"}, {value.None, "none"}, {value.Forbidden, "forbidden"}} {
				if v.Flags&f.flag != 0 {
					line += " " + f.text
				}
			}
			data := fmt.Sprintf("%q", v.Data)
			if len(v.Data) > 100 {
				data = fmt.Sprint(len(v.Data), " bytes")
			}
			line += fmt.Sprintf(" %d %s]", v.Length, data)
		}
		for ; len(results) > 0 && results[0].Call == i; results = results[1:] {
			line += fmt.Sprintf(" = %d", int64(results[0].Value))
		}
		if b.Calls[i].End == calls.Left {
			line += " left"
		}
		s.lines = append(s.lines, line)
	}
	for i := range b.Events {
		s.lines = append(s.lines, "event "+b.Events[i].Kind.String())
	}
	return nil
}

func (s *valueLines) Merge(*valueLines) {}

func sayValues(t *testing.T, path string) (lines []string, recording *reader.Recording) {
	t.Helper()
	trace, err := reader.Open(reader.Options{}, path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	opened, err := symbolize.Open(trace, nil, symbolize.Search{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	s, stats, err := calls.Run(calls.Source(trace), calls.Options{Shards: 1}, func() *valueLines { return &valueLines{names: opened.Names} })
	if err != nil {
		t.Fatal(err)
	}
	// Of a call that a handler leaves by longjmp before its entry is recorded, there is an exit.
	if stats.Unmatched > 100 || stats.Unmatched > 0 && !strings.Contains(t.Name(), "signals") {
		t.Errorf("%d exits without an entry", stats.Unmatched)
	}
	return s.lines, trace.Recording(0)
}

// buildValues returns testdata/values.cc.
func buildValues(t *testing.T, clang string, flags ...string) string {
	return elftest.Build(t, strings.Replace(clang, "clang", "clang++", 1), "values", slices.Concat([]string{"-O2", "-Iruntime", "-fxray-instrument", clangs[clang], "testdata/values.cc"}, flags, []string{"-pthread", "-ldl"})...)
}

// runValues runs a way of testdata/values.cc, which prints its name, and returns the lines of each trace.
func runValues(t *testing.T, l *build.Library, program, options, way string) (lines [][]string, recordings []*reader.Recording) {
	t.Helper()
	if way, observed := strings.CutSuffix(way, ", observed"); observed {
		_, trace := runObserved(t, *l, options, program, way)
		l, r := sayValues(t, trace)
		return [][]string{l}, []*reader.Recording{r}
	}
	out, _, traces := recordProgram(t, l, options, program, way)
	if out != way+"\n" {
		t.Errorf("the program printed %q", out)
	}
	if len(traces) == 0 {
		t.Fatal("no trace")
	}
	for _, path := range traces {
		l, r := sayValues(t, path)
		lines, recordings = append(lines, l), append(recordings, r)
	}
	return lines, recordings
}

func bits(f float64) int64 { return int64(math.Float64bits(f)) }

// allValues are the calls of all in testdata/values.cc.
var allValues = []string{
	"ints -5 -7 250 = 238",
	"ints -9223372036854775808 1 0 = -9223372036854775807",
	fmt.Sprintf("floats %d %d = %d", bits(1.5), math.Float32bits(-2.25), bits(-0.75)),
	`string [0 0 ""]`,
	`string [0 5 "short"]`,
	`string [0 truncated 32 "a string of more than thirty-two"]`,
	`string [0 unreadable 0 ""]`,
	`string [0 unreadable 0 ""]`,
	`string [0 unreadable 0 ""]`,
	`string [0 unreadable 0 ""]`,
	`string [0 unreadable 4 "edge"]`,
	`string [0 unreadable 5 "cliff"]`,
	`string [0 13 "of the caller"]`,
	`lengthy [0 100 "` + strings.Repeat("x", 100) + `"]`,
	`lengthy [0 4 "tiny"]`,
	`lengthy [0 truncated 4080 4080 bytes]`,
	`lengthy [0 unreadable 41 "this one has forty bytes and ends at edge"]`,
	`object 4294967287 1 2 9 [4 12 "on the stack"]`,
	`object 9 7 200 0 [3 none 1 ""] [4 6 "second"]`,
	`object 0 0 0 0 [0 unreadable 0 ""] [1 unreadable 0 ""] [2 unreadable 0 ""] [3 unreadable 0 ""] [4 unreadable 0 ""]`,
	`object 0 0 0 0 [0 unreadable 0 ""] [1 unreadable 0 ""] [2 unreadable 0 ""] [3 unreadable 0 ""] [4 unreadable 0 ""]`,
	`object 9 7 200 0 [3 unreadable 0 ""] [4 6 "second"]`,
	"many -7 -8 = 6",
	`wide [0 16 "\x05\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"] [0 exit 16 "\x06\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"]`,
	`both [0 truncated 4 "012"] [0 exit 8 "\x04\x00\x00\x00\x00\x00\x00\x00"] [1 exit 4 "0123"]`,
	`both [0 unreadable 0 ""] [0 exit 8 "\x03\x00\x00\x00\x00\x00\x00\x00"] [1 exit unreadable 0 ""]`,
	`both [0 0 ""] [0 exit 8 "\x00\x00\x00\x00\x00\x00\x00\x00"] [1 exit 0 ""]`,
}

// The values are those of the program in all modes that record calls, and with each way to notice switches.
func TestValues(t *testing.T) {
	t.Parallel()
	l := library(t)
	for _, clang := range []string{"clang-14", "clang-19", "clang-22"} {
		program := buildValues(t, clang)
		filter := valuesFilter(t, program)
		ways := []string{""}
		if clang == "clang-22" {
			ways = append(ways, ",offcpu=0", ",mode=prune,threshold=1000000000", ",mode=depth,depth=9", ",stream=0,ring=1048576")
		}
		for _, way := range ways {
			t.Run(clang+way, func(t *testing.T) {
				lines, recordings := runValues(t, &l, program, "filter="+filter+way, "plain")
				want := allValues
				if !strings.Contains(way, "prune") {
					want = slices.Concat(want, []string{"nothing", "plain"})
				} else {
					want = slices.Concat(want, []string{"nothing", "plain"}) // they are always instrumented
				}
				if got := strings.Join(lines[0], "\n"); got != strings.Join(want, "\n") {
					t.Errorf("got\n%s\nwant\n%s", got, strings.Join(want, "\n"))
				}
				r := recordings[0]
				if len(r.Values) != len(valuesOf) || len(r.Unread) != 1 || r.Unread[0].Why != "there is no y" {
					t.Errorf("the trace describes %+v, %+v", r.Values, r.Unread)
				}
				for _, v := range r.Values {
					if len(v.Entry) != 1 || valuesOf[v.Entry[0].Expression].entry == nil {
						t.Errorf("got %+v", v)
					}
				}
			})
		}
	}
}

// The program's own handlers get all calls, and the trace says that these have no values.
func TestValuesBesideHandlers(t *testing.T) {
	t.Parallel()
	l, program := library(t), buildValues(t, "clang-22")
	filter := valuesFilter(t, program)
	for _, way := range []string{"handler", "handler_arg1"} {
		t.Run(way, func(t *testing.T) {
			lines, recordings := runValues(t, &l, program, "filter="+filter, way)
			if got, want := strings.Join(lines[0], "\n"), "logging 5\nints\nplain"; got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			if unread := recordings[0].Unread; len(unread) != 2 || !strings.Contains(unread[1].Why, "__xray_set_handler") {
				t.Errorf("the trace says %+v", unread)
			}
		})
	}
}

// Within a budget, reading values counts as cost: a function whose calls would be recorded without them is switched off.
func TestValuesWithinABudget(t *testing.T) {
	t.Parallel()
	l, program := library(t), buildValues(t, "clang-22")
	_, trace := variant{program, &l}.runLimited(t, "limited=1,control=1,filter="+valuesFilter(t, program), 0.02, "budget")
	const calls = 60000
	n := make(map[string]int)
	lines, _ := sayValues(t, trace)
	for _, line := range lines {
		n[line]++
	}
	priced, unpriced := n[`priced [0 18 "a text on the heap"]`], n["unpriced"]
	if priced == 0 || priced > calls/10 || unpriced < calls/4 || priced+unpriced+n["plain"] != len(lines) {
		t.Errorf("of %d calls each, %d were recorded with values, and %d without", calls, priced, unpriced)
	}
}

// Nothing that other threads, signal handlers or the program itself do makes the recorder fault, or claim what is
// not so. With XRAY_SOAK=1, there are more threads.
func TestValuesDoNoHarm(t *testing.T) {
	t.Parallel()
	l := library(t)
	program := buildValues(t, "clang-22")
	filter := valuesFilter(t, program)
	known := make(map[string]bool)
	for _, line := range allValues {
		known[line] = true
	}
	nthreads := 1000
	if os.Getenv("XRAY_SOAK") == "1" {
		nthreads = 4000
	}
	for way, check := range map[string]func(t *testing.T, lines []string){
		"unmap": func(t *testing.T, lines []string) {
			seen := make(map[string]int)
			for _, line := range lines {
				seen[line]++
			}
			if read, unreadable := seen[`string [0 0 ""]`], seen[`string [0 unreadable 0 ""]`]; read+unreadable != 20000 || read == 0 || unreadable == 0 {
				t.Errorf("%d strings were read and %d unreadable", read, unreadable)
			}
		},
		fmt.Sprint("threads ", nthreads): func(t *testing.T, lines []string) {
			n := 0
			for _, line := range lines {
				if known[line] {
					n++
				} else if line != "nothing" && line != "plain" {
					t.Fatalf("got %s", line)
				}
			}
			if want := 10 * nthreads * len(allValues); n != want {
				t.Errorf("got %d calls, want %d", n, want)
			}
		},
		"signals": func(t *testing.T, lines []string) {
			handled := 0
			for _, line := range lines {
				if line == `string [0 12 "in a handler"]` {
					handled++
				}
			}
			if handled < 2900 { // handlers leave handlers, too
				t.Errorf("%d handlers", handled)
			}
		},
		"seccomp, observed": func(t *testing.T, lines []string) {
			// The literals are in memory that nobody may write, and a null pointer is not.
			for i, want := range []string{allValues[0], allValues[1], allValues[2], allValues[3], allValues[4], allValues[5], `string [0 unreadable forbidden 0 ""]`} {
				if i+1 >= len(lines) || lines[i+1] != want {
					t.Errorf("call %d is not %s: %q", i+1, want, lines)
				}
			}
		},
		"chains": func(t *testing.T, lines []string) {
			for i := range 300 {
				k, name := i/2%3, "name "+string(rune('a'+i%26))
				if i%7 == 3 {
					name = "gone"
				}
				want := fmt.Sprintf("object %d %d %d %d [4 %d %q]", k, k+1, k+2, (k+1)%3, len(name), name)
				if i >= len(lines) || lines[i] != want {
					t.Fatalf("call %d is not %s: %q", i, want, lines[max(0, i-2):min(len(lines), i+1)])
				}
			}
		},
		"exceptions": func(t *testing.T, lines []string) {
			want := "thrower 0 = 1\nthrower 1 left\nthrower 0 = 3\nthrower 3 left\nplain"
			if got := strings.Join(lines, "\n"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		},
	} {
		t.Run(way, func(t *testing.T) {
			lines, _ := runValues(t, &l, program, "filter="+filter+os.Getenv("XO"), way)
			check(t, lines[0])
		})
	}
	t.Run("fork", func(t *testing.T) {
		lines, _ := runValues(t, &l, program, "filter="+filter, "fork")
		n := []int{len(lines[0]), len(lines[1])}
		slices.Sort(n)
		if per := len(allValues) + 1; n[0] != per+1 || n[1] != 3*per {
			t.Errorf("the traces have %v calls", n)
		}
	})
}

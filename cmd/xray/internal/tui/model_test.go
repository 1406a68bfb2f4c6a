package tui

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
)

// sample is main, which calls handle, which calls parse and stall. stall is also called by idle.
func sample(observed uint64) *Data {
	return &Data{
		Clock: reader.Clock{Frequency: 1e9}, Title: "server", Observed: observed, OffCPU: true,
		Functions: []Function{
			{ID: 1, Name: "main", Open: 1, Self: 1e6, CPU: 1e6, Total: 1e9},
			{ID: 2, Name: "handle(Request const&)", Location: "server.cc:12", Calls: 1200, Self: 20e6, CPU: 20e6, Total: 900e6, P50: 500e3, P99: 2e6, Max: 9e6},
			{ID: 3, Name: "parse", Calls: 2400, Self: 680e6, CPU: 679e6, Total: 680e6, Blocked: 1e6, P50: 250e3, P99: 900e3, Max: 1e6, Octaves: []uint64{18: 2000, 19: 400}},
			{ID: 4, Name: "stall", Calls: 10, Self: 200e6, CPU: 1e6, Total: 200e6, Blocked: 199e6, P50: 20e6, P99: 21e6, Max: 21e6},
			{ID: 5, Name: "idle", Calls: 1, Self: 99e6, CPU: 99e6, Total: 109e6, P50: 109e6, P99: 109e6, Max: 109e6},
		},
		Threads: []Thread{{Name: "7 main", Calls: 3611, Self: 990e6, CPU: 790e6, Blocked: 200e6, Busiest: 3}, {Name: "8 bg", Calls: 1, Self: 10e6, CPU: 10e6, Busiest: 5}},
		Frames: []Frame{
			{Func: 1, Parent: -1, Self: 1e6, Total: 1e9},
			{Func: 2, Parent: 0, Calls: 1200, Self: 20e6, Total: 890e6},
			{Func: 3, Parent: 1, Calls: 2400, Self: 680e6, Total: 680e6},
			{Func: 4, Parent: 1, Calls: 9, Self: 190e6, Total: 190e6},
			{Func: 5, Parent: 0, Calls: 1, Self: 99e6, Total: 109e6},
			{Func: 4, Parent: 4, Calls: 1, Self: 10e6, Total: 10e6},
		},
	}
}

func press(m *Model, keys ...key) {
	for _, k := range keys {
		if t := m.press(k); t != nil {
			lines, err := t.Run()
			m.done(t, lines, err)
		}
	}
}

// screen returns what is shown, with > before the row of the cursor.
func screen(t *testing.T, m *Model) string {
	t.Helper()
	var b strings.Builder
	lines := m.view()
	if len(lines) > m.height {
		t.Errorf("%d lines on a screen of %d", len(lines), m.height)
	}
	for _, l := range lines {
		if w := texttab.Width(l.Text); w > m.width {
			t.Errorf("%d cells on a screen of %d: %q", w, m.width, l.Text)
		}
		mark := " "
		if l.Style == styleSelected {
			mark = ">"
		}
		b.WriteString(strings.TrimRight(mark+l.Text, " ") + "\n")
	}
	return strings.TrimSpace(b.String())
}

func expect(t *testing.T, m *Model, want string) {
	t.Helper()
	got := screen(t, m)
	got = strings.TrimSpace(got[:strings.LastIndex(got, "\n")]) // without the line of keys
	if diff := cmp.Diff(strings.TrimSpace(want), got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestFunctions(t *testing.T) {
	m := New(sample(2e9), "self")
	m.resize(80, 12)
	expect(t, m, `server
  calls/s↓self/s total/s  cpu/s block/s    p50    p99    max function
>   1.20k  340ms   340ms  340ms   500us  250us  900us 1.00ms parse
        5  100ms   100ms  500us  99.5ms 20.0ms 21.0ms 21.0ms stall
     0.50 49.5ms  54.5ms 49.5ms       0  109ms  109ms  109ms idle
      600 10.0ms   450ms 10.0ms       0  500us 2.00ms 9.00ms handle(Request cons…
        0  500us   500ms  500us       0      -      -      - main`)
	// A trace shows sums. A narrow terminal shows fewer columns.
	m = New(sample(0), "calls")
	m.resize(40, 9)
	press(m, keyDown, "r")
	expect(t, m, `server
   ↑calls   self    p99 function
        0 1.00ms      - main
>       1 99.0ms  109ms idle
       10  200ms 21.0ms stall
    1.20k 20.0ms 2.00ms handle(Request c…
    2.40k  680ms  900us parse`)
}

func TestSortAndSearch(t *testing.T) {
	m := New(sample(0), "self")
	order := func() string {
		var names []string
		for _, i := range m.chosen {
			names = append(names, m.data.Functions[i].Name[:4])
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct {
		keys []key
		want string
	}{
		{nil, "pars stal idle hand main"},
		{[]key{">"}, "main hand pars stal idle"},      // total
		{[]key{">", ">"}, "stal pars main hand idle"}, // blocked
		{[]key{">", ">", ">", ">"}, "hand idle main pars stal"},
		{[]key{"r"}, "stal pars main idle hand"},
		{[]key{"<"}, "idle stal hand pars main"},
		{[]key{"/", "^", "(", "h"}, "idle stal hand pars main"}, // not complete: it changes nothing
		{[]key{"|", "m", ")"}, "hand main"},
		{[]key{keyBackspace, keyBackspace, keyBackspace, ")", keyEnter}, "hand"},
		{[]key{keyEscape}, "idle stal hand pars main"},
	} {
		press(m, c.keys...)
		if got := order(); got != c.want {
			t.Errorf("after %v: got %s, want %s", c.keys, got, c.want)
		}
	}
	press(m, "/", "[")
	if got := screen(t, m); !strings.Contains(got, "missing closing ]") {
		t.Errorf("no error of the regular expression:\n%s", got)
	}
	press(m, "q")
	if m.over() {
		t.Error("q in a search quits")
	}
	if press(m, keyInterrupt); !m.over() {
		t.Error("Ctrl-C does not quit")
	}
}

func TestFunctionPage(t *testing.T) {
	m := New(sample(0), "self")
	m.resize(60, 16)
	press(m, keyDown, keyEnter)
	expect(t, m, `server
 stall
>   calls  ↓self   block    p99    max
       10  200ms   199ms 21.0ms 21.0ms
   calls   total callers
       9   190ms handle(Request const&)
       1  10.0ms idle
   calls   total callees
   calls durations
 no call ended`)
	press(m, keyDown, keyDown, keyDown, keyEnter)
	expect(t, m, `server
 handle(Request const&)
>server.cc:12
    calls  ↓self   block    p99    max
    1.20k 20.0ms       0 2.00ms 9.00ms
   calls   total callers
   1.20k   890ms main
   calls   total callees
   2.40k   680ms parse
       9   190ms stall
   calls durations
 no call ended`)
	press(m, keyDown, keyDown, keyDown, keyDown, keyDown, keyDown, keyEnter)
	m.resize(60, 16)
	expect(t, m, `server
 parse
>   calls  ↓self   block    p99    max
    2.40k  680ms  1.00ms  900us 1.00ms
   calls   total callers
   2.40k   680ms handle(Request const&)
   calls   total callees
   calls durations
   2.00k 131us to 262us     ████████████████████████████████
     400 262us to 524us     ██████▍`)
	if press(m, keyEscape, keyEscape, keyEscape, keyEscape); len(m.pages) != 1 {
		t.Errorf("%d pages are open, want 1", len(m.pages))
	}
}

func TestTree(t *testing.T) {
	m := New(sample(0), "self")
	m.resize(60, 12)
	press(m, keyTab)
	expect(t, m, `server
   total  share   self   calls call tree
>  1.00s 100.0% 1.00ms       0 + main`)
	press(m, keyRight, keyDown, keyRight)
	open := `server
   total  share   self   calls call tree
   1.00s 100.0% 1.00ms       0 - main
>  890ms  89.0% 20.0ms   1.20k   - handle(Request const&)
   680ms  68.0%  680ms   2.40k       parse
   190ms  19.0%  190ms       9       stall
   109ms  10.9% 99.0ms       1   + idle`
	expect(t, m, open)
	// Open rows and the cursor survive new data.
	d := sample(0)
	d.Frames[4].Total = 900e6
	m.update(d)
	expect(t, m, `server
   total  share   self   calls call tree
   1.00s 100.0% 1.00ms       0 - main
   900ms  90.0% 99.0ms       1   + idle
>  890ms  89.0% 20.0ms   1.20k   - handle(Request const&)
   680ms  68.0%  680ms   2.40k       parse
   190ms  19.0%  190ms       9       stall`)
	m.update(sample(0))
	expect(t, m, open)
	press(m, keyDown, keyLeft, keyLeft, keyLeft, keyLeft)
	expect(t, m, `server
   total  share   self   calls call tree
>  1.00s 100.0% 1.00ms       0 + main`)
	press(m, "*")
	if got := screen(t, m); !strings.Contains(got, "parse") || strings.Contains(got, "- idle") {
		t.Errorf("the hottest path is not open:\n%s", got)
	}
	press(m, keyTab)
	expect(t, m, `server
   calls    cpu   block   queue thread                   mos…
>  3.61k  790ms   200ms       0 7 main                   par…
       1 10.0ms       0       0 8 bg                     idle`)
}

// A frozen display does not change. Once it is unfrozen, it shows the newest data.
func TestFreeze(t *testing.T) {
	m := New(sample(1e9), "self")
	press(m, "f")
	d := sample(1e9)
	d.Title = "later"
	m.update(d)
	if got := screen(t, m); !strings.HasPrefix(got, "FROZEN server") {
		t.Errorf("not frozen:\n%s", got)
	}
	press(m, "f")
	if got := screen(t, m); !strings.HasPrefix(got, "later") {
		t.Errorf("still frozen:\n%s", got)
	}
}

func TestTasks(t *testing.T) {
	d := sample(1e9)
	d.Slowest = func(fn reader.FuncID, width int) ([]string, error) {
		return []string{fmt.Sprint("slow ", fn, " ", width)}, nil
	}
	d.Source = func(reader.FuncID, int) ([]string, error) {
		return nil, errors.New("no source" + strings.Repeat(" at all", 12) + " for a reason")
	}
	d.Save = func() (string, error) { return "trace.xray", nil }
	m := New(d, "self")
	for _, c := range []struct {
		keys []key
		want string
	}{
		{[]key{"l"}, "slow 3 80"}, {[]key{keyEscape, keyDown, "s"}, "Source of stall\n>no source"}, {nil, "for a reason"},
		{[]key{"w"}, "wrote trace.xray"}, {[]key{"?"}, "Ctrl-C"},
	} {
		press(m, c.keys...)
		if got := screen(t, m); !strings.Contains(got, c.want) {
			t.Errorf("after %v: %q is not in\n%s", c.keys, c.want, got)
		}
	}
}

// No name controls the terminal, and no sequence of keys fails, on any size of terminal.
func TestAnyKeys(t *testing.T) {
	const evil = "evil\x1b[31m\x1b]8;;http://x\x07\u009b\u202e\r\n\tb\xff日本語"
	keys := []key{keyUp, keyDown, keyLeft, keyRight, keyPageUp, keyPageDown, keyHome, keyEnd, keyEnter, keyEscape, keyTab, keyBackspace, "q", "?", "<", ">", "r", "/", "f", "w", "*", "c", "l", "s", "(", "x"}
	rapid.Check(t, func(rt *rapid.T) {
		make := func() *Data {
			d := sample(uint64(rapid.IntRange(0, 1).Draw(rt, "rate")) * 1e9)
			d.Title, d.Notes = evil, []string{evil, strings.Repeat("long ", 50)}
			for i := range d.Functions {
				d.Functions[i].Name, d.Functions[i].Location = evil, evil
			}
			d.Threads[0].Name = evil
			d.Slowest = func(reader.FuncID, int) ([]string, error) { return []string{evil}, nil }
			d.Source = func(reader.FuncID, int) ([]string, error) { return nil, errors.New(evil) }
			d.Save = func() (string, error) { return evil, nil }
			if rapid.Bool().Draw(rt, "empty") {
				d.Functions, d.Threads, d.Frames = nil, nil, nil
			}
			return d
		}
		m := New(make(), rapid.SampledFrom(Columns()).Draw(rt, "column"))
		for range 30 {
			switch rapid.IntRange(0, 9).Draw(rt, "step") {
			case 0:
				m.resize(rapid.IntRange(0, 100).Draw(rt, "width"), rapid.IntRange(0, 30).Draw(rt, "height"))
			case 1:
				m.update(make())
			default:
				press(m, rapid.SampledFrom(keys).Draw(rt, "key"))
			}
			for _, l := range m.view() {
				if strings.ContainsFunc(l.Text, func(r rune) bool { return unicode.IsControl(r) || r == 0x202e }) || !utf8.ValidString(l.Text) {
					rt.Fatalf("%q", l.Text)
				}
			}
			screen(t, m)
		}
	})
}

package convert

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// firefoxVersion is the first version of the format that can contain source code. See
// docs-developer/CHANGELOG-formats.md of the Firefox Profiler. The profiler reads all versions
// up to its own.
const firefoxVersion = "64"

// firefoxAbout is the part of the profile that does not depend on the trace. The sampling interval
// has no meaning here, because runs have any length. It should be shorter than the runs of interest.
const firefoxAbout = `"interval":0.001,"preprocessedProfileVersion":` + firefoxVersion + `,"version":27,` +
	`"importedFrom":"xray","processType":0,"stackwalk":1,"debug":false,` +
	`"symbolicated":true,"usesOnlyOneStackType":true,"sourceCodeIsNotOnSearchfox":true,
"sampleUnits":{"time":"ms","eventDelay":"ms","threadCPUDelta":"ns"},
"categories":[{"name":"Other","color":"grey","subcategories":["Other"]},{"name":"Calls","color":"blue","subcategories":["Other"]}],
"markerSchema":[
{"name":"event","display":["marker-chart","marker-table","timeline-overview"],` +
	`"tableLabel":"{marker.data.text}{marker.data.bytes}","chartLabel":"{marker.name} {marker.data.text}{marker.data.bytes}",` +
	`"fields":[{"key":"text","label":"Text","format":"string"},{"key":"bytes","label":"Bytes","format":"string"}]},
{"name":"request","display":["marker-chart","marker-table","timeline-overview"],` +
	`"tableLabel":"{marker.data.request}{marker.data.text ? ': ' : ''}{marker.data.text}",` +
	`"chartLabel":"{marker.name} {marker.data.request}{marker.data.text ? ': ' : ''}{marker.data.text}",` +
	`"fields":[{"key":"request","label":"Request","format":"flow-id"},{"key":"text","label":"Text","format":"string"}]},
{"name":"call","display":["marker-chart","marker-table"],"tableLabel":"{marker.data.arguments}",` +
	`"chartLabel":"{marker.name} {marker.data.arguments}","fields":[{"key":"arguments","label":"Arguments","format":"string"}]},
{"name":"offcpu","display":["marker-chart","marker-table","timeline-overview"],"tableLabel":"{marker.data.switches}",` +
	`"chartLabel":"{marker.name}","fields":[{"key":"switches","label":"Switches","format":"string"},{"key":"place","label":"When","format":"string"}]}]`

// Categories, as numbered in firefoxAbout, and phases of markers, as the profiler numbers them.
const (
	categoryOther, categoryCalls = 0, 1
	phaseInstant, phaseInterval  = 0, 1
)

// Close writes the profile.
func (f *Firefox) Close() error {
	threads := slices.DeleteFunc(f.threads, func(t *firefoxThread) bool { return t == nil || !t.begun })
	if len(threads) == 0 {
		// The profiler cannot open a profile without threads.
		threads = append(threads, f.newThread(reader.Thread{}))
	}
	for _, t := range threads {
		t.markers = append(t.markers, t.gaps...)
		last := t.at
		for i := range t.markers {
			last = max(last, f.time.at(t.markers[i].end))
		}
		t.end(last)
	}
	f.about(threads)
	f.text(",\n" + `"libs":[],"threads":[`)
	for i, t := range threads {
		if i > 0 {
			f.text(",")
		}
		f.thread(t)
	}
	f.text("],\n" + `"shared":{`)
	f.functions()
	f.text(`"stringArray":[`)
	for i, s := range f.texts.list {
		if i > 0 {
			f.text(",")
		}
		f.out.buf = f.out.spill(appendJSON(append(f.out.buf, '\n'), s))
	}
	return f.out.finish("]}}\n")
}

func (f *Firefox) text(s string) { f.out.buf = f.out.spill(append(f.out.buf, s...)) }

// firefoxVisible is the number of threads that are visible at first. By default, the profiler hides
// threads with few samples, but these are the ones with long calls.
const firefoxVisible = 50

// about writes the profile's information about its format and the trace.
func (f *Firefox) about(threads []*firefoxThread) {
	first, last, total := int64(0), int64(0), int64(0)
	visible := make([]int, len(threads))
	for i, t := range threads {
		first, last, visible[i] = min(first, t.first), max(last, t.at), i
	}
	slices.SortStableFunc(visible, func(a, b int) int { return cmp.Compare(threads[b].busy, threads[a].busy) })
	visible = visible[:min(len(visible), firefoxVisible)]
	for _, n := range f.ends {
		total += n
	}
	b := append(f.out.buf, `{"meta":{`+firefoxAbout+`,`+"\n"+`"product":`...)
	b = appendJSON(b, cmp.Or(strings.Join(f.opts.Files, ", "), "trace"))
	b = appendMillis(append(b, `,"startTime":`...), int64(min(f.opts.Epoch, farthest)))
	b = appendMillis(append(b, `,"profilingStartTime":`...), first)
	b = appendMillis(append(b, `,"profilingEndTime":`...), last)
	b = appendNumbers(append(b, `,"initialSelectedThreads":`...), visible[:min(len(visible), 1)])
	b = appendNumbers(append(b, `,"initialVisibleThreads":`...), visible)
	b = append(b, `,"extra":[{"label":"Trace","entries":[{"label":"Calls","format":"integer","value":`...)
	b = append(strconv.AppendInt(b, total, 10), '}')
	number := func(label string, n int64) {
		if n != 0 {
			b = append(append(b, `,{"label":"`...), label...)
			b = append(strconv.AppendInt(append(b, `","format":"integer","value":`...), n, 10), '}')
		}
	}
	number("Calls too short to be shown", f.short)
	number("Calls that were open at the end", f.ends[calls.Truncated])
	number("Calls without an exit record", f.ends[calls.Inferred])
	number("Calls ended by an exception or longjmp", f.ends[calls.Left])
	if f.opts.Lost != nil {
		number("Records lost", f.opts.Lost())
	}
	if f.opts.LeftOut != "" {
		b = appendJSON(append(b, `,{"label":"Omitted","format":"string","value":`...), f.opts.LeftOut)
		b = append(b, '}')
	}
	if f.opts.Caveats != nil {
		for _, text := range f.opts.Caveats() {
			b = appendJSON(append(b, `,{"label":"Missing","format":"string","value":`...), text)
			b = append(b, '}')
		}
	}
	if !f.time.clock.Known() {
		b = append(b, `,{"label":"Unit of time","format":"string",`+
			`"value":"ticks: the clock frequency is unknown, and 1 ns stands for 1 tick"}`...)
	}
	f.out.buf = append(b, "]}]}"...)
}

// thread writes a thread.
func (f *Firefox) thread(t *firefoxThread) {
	pid, _ := f.tracks.process(t.thread)
	b := append(f.out.buf, "\n"+`{"processType":"default","processStartupTime":0,"processShutdownTime":null,"registerTime":`...)
	b = appendMillis(b, t.first)
	b = append(b, `,"unregisterTime":null,"pausedRanges":[],"name":`...)
	b = appendJSON(b, f.tracks.threadName(t.thread))
	b = appendJSON(append(b, `,"processName":`...), f.tracks.processName(t.thread))
	b = strconv.AppendBool(append(b, `,"isMainThread":`...), t.thread.Thread == t.thread.Process)
	b = strconv.AppendInt(append(b, `,"pid":"`...), pid, 10)
	b = strconv.AppendInt(append(b, `","tid":`...), int64(t.thread.Thread), 10)
	b = append(b, ",\n"+`"samples":{"weightType":"tracing-ms","length":`...)
	f.out.buf = strconv.AppendInt(b, int64(t.runs.count), 10)
	f.samples(t, "stack", func(dst []byte, stack calls.PathID, _, _ int64) []byte { return appendStack(dst, stack) })
	f.samples(t, "timeDeltas", func(dst []byte, _ calls.PathID, _, since int64) []byte { return appendMillis(dst, since) })
	f.samples(t, "weight", func(dst []byte, stack calls.PathID, length, _ int64) []byte {
		if stack == 0 {
			length = 0
		}
		return appendMillis(dst, length)
	})
	f.text("},\n" + `"markers":{"length":` + strconv.Itoa(len(t.markers)))
	markers := func(name string, value func([]byte, *firefoxMarker) []byte) {
		f.column(name, len(t.markers), func(dst []byte, i int) []byte { return value(dst, &t.markers[i]) })
	}
	markers("name", func(dst []byte, m *firefoxMarker) []byte { return strconv.AppendInt(dst, int64(m.name), 10) })
	markers("startTime", func(dst []byte, m *firefoxMarker) []byte { return appendMillis(dst, f.time.at(m.start)) })
	markers("endTime", func(dst []byte, m *firefoxMarker) []byte {
		if !m.call {
			return append(dst, "null"...)
		}
		return appendMillis(dst, f.time.at(m.end))
	})
	markers("phase", func(dst []byte, m *firefoxMarker) []byte {
		if m.call {
			return strconv.AppendInt(dst, phaseInterval, 10)
		}
		return strconv.AppendInt(dst, phaseInstant, 10)
	})
	markers("category", func(dst []byte, m *firefoxMarker) []byte {
		if m.call {
			return strconv.AppendInt(dst, categoryCalls, 10)
		}
		return strconv.AppendInt(dst, categoryOther, 10)
	})
	markers("data", func(dst []byte, m *firefoxMarker) []byte {
		dst = append(dst, m.data...)
		if m.stack != 0 {
			dst = append(appendStack(append(dst, `,"cause":{"stack":`...), m.stack), '}')
		}
		return append(dst, '}')
	})
	f.text("}}")
}

// samples writes a column of the runs of a thread. value appends the value for a run, given
// its stack, its length, and the time since the start of the previous run.
func (f *Firefox) samples(t *firefoxThread, name string, value func(dst []byte, stack calls.PathID, length, since int64) []byte) {
	b := append(append(append(f.out.buf, ",\n\""...), name...), "\":["...)
	since := t.first
	separate := false
	for stack, length := range t.runs.all() {
		if separate {
			b = append(b, ',')
		}
		separate = true
		b = f.out.spill(value(b, stack, length, since))
		since = length
	}
	f.out.buf = append(b, ']')
}

// column writes a column of n values.
func (f *Firefox) column(name string, n int, value func(dst []byte, i int) []byte) {
	b := append(append(append(f.out.buf, ",\n\""...), name...), "\":["...)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = f.out.spill(value(b, i))
	}
	f.out.buf = append(b, ']')
}

// functions writes the tables of call paths, functions and files. A frame is a function.
func (f *Firefox) functions() {
	var functions indexed[reader.FuncID]
	paths := f.paths.Len() - 1
	table := func(name string, length int) {
		f.text(`"` + name + `":{"length":` + strconv.Itoa(length))
	}
	table("stackTable", paths)
	f.column("frame", paths, func(dst []byte, i int) []byte {
		return strconv.AppendInt(dst, int64(functions.of(f.paths.Func(calls.PathID(i+1)))), 10)
	})
	f.column("prefix", paths, func(dst []byte, i int) []byte { return appendStack(dst, f.paths.Parent(calls.PathID(i+1))) })
	f.text("},\n")

	n := len(functions.list)
	var files indexed[string]
	symbols := make([]symbolize.Symbol, n)
	for i, fn := range functions.list {
		if f.opts.Names != nil {
			symbols[i], _ = f.opts.Names.Func(fn)
		}
	}
	number := func(dst []byte, i int) []byte { return strconv.AppendInt(dst, int64(i), 10) }
	constant := func(names, value string, n int) {
		for name := range strings.SplitSeq(names, " ") {
			f.column(name, n, func(dst []byte, _ int) []byte { return append(dst, value...) })
		}
	}
	// line is null without debug information.
	line := func(dst []byte, i int) []byte {
		if symbols[i].File == "" {
			return append(dst, "null"...)
		}
		return number(dst, symbols[i].Line)
	}
	table("frameTable", n)
	f.column("func", n, number)
	f.column("line", n, line)
	constant("address", "-1", n)
	constant("category", strconv.Itoa(categoryCalls), n)
	constant("inlineDepth subcategory", "0", n)
	constant("nativeSymbol innerWindowID column originalLocation", "null", n)
	f.text("},\n")
	table("funcTable", n)
	f.column("name", n, func(dst []byte, i int) []byte { return number(dst, f.texts.of(f.name(functions.list[i]))) })
	f.column("source", n, func(dst []byte, i int) []byte {
		if symbols[i].File == "" {
			return append(dst, "null"...)
		}
		return number(dst, files.of(symbols[i].File))
	})
	f.column("lineNumber", n, line)
	constant("resource", "-1", n)
	constant("isJS relevantForJS", "false", n)
	constant("columnNumber originalLocation", "null", n)
	f.text("},\n")
	table("sources", len(files.list))
	f.column("filename", len(files.list), func(dst []byte, i int) []byte { return number(dst, f.texts.of(files.list[i])) })
	f.column("content", len(files.list), func(dst []byte, i int) []byte {
		if text := f.sources.text(files.list[i]); text != "" {
			return appendJSON(dst, text)
		}
		return append(dst, "null"...)
	})
	constant("id sourceMapURL", "null", len(files.list))
	constant("startLine startColumn", "1", len(files.list))
	f.text("},\n" + `"resourceTable":{"length":0,"lib":[],"name":[],"host":[],"type":[]},` + "\n" +
		`"nativeSymbols":{"length":0,"libIndex":[],"address":[],"name":[],"functionSize":[]},` + "\n" +
		`"sourceLocationTable":{"length":0,"source":[],"line":[],"column":[]},` + "\n")
}

func appendNumbers(dst []byte, numbers []int) []byte {
	dst = append(dst, '[')
	for i, n := range numbers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	return append(dst, ']')
}

// name returns the name of a function.
func (f *Firefox) name(fn reader.FuncID) string {
	if fn == leftOutFunc && f.opts.LeftOut != "" {
		return leftOutName
	}
	return f.opts.label(fn)
}

// appendStack appends the number of a stack.
func appendStack(dst []byte, stack calls.PathID) []byte {
	if stack == 0 {
		return append(dst, "null"...)
	}
	return strconv.AppendInt(dst, int64(stack)-1, 10)
}

// appendMillis appends a time in milliseconds, exactly and in few bytes.
func appendMillis(dst []byte, nanos int64) []byte {
	dst = strconv.AppendInt(dst, nanos, 10)
	if nanos == 0 {
		return dst
	}
	return append(dst, "e-6"...)
}

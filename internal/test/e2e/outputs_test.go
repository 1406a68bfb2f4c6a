package e2e

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/pprof/profile"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/convert/html"
	"github.com/xray-tools/xray/graph"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/stack"
	"github.com/xray-tools/xray/symbolize"
)

// program has templates and inlined functions. Its names serve any trace.
type program struct {
	names     *symbolize.Table
	templates *symbolize.Templates
}

func loadProgram(t testing.TB) program {
	t.Helper()
	table, err := symbolize.Load(filepath.Join(testdata, "kvserver"), symbolize.Options{})
	must(t, err)
	t.Cleanup(func() { table.Close() })
	return program{table, symbolize.GroupTemplates(table)}
}

// render writes outputs that can be sharded.
func render(t testing.TB, tr *reader.Trace, src calls.Source, shards int, p program) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	write := func(name string, f func(io.Writer) error) []byte {
		var b bytes.Buffer
		must(t, f(&b))
		out[name] = b.Bytes()
		return b.Bytes()
	}
	frequency := tr.Header(0).CycleFrequency
	c := reader.Clock{Frequency: frequency}

	newAccount := func() *account.Analysis { return account.New(account.Options{}) }
	a, stats, err := calls.Run(src, calls.Options{Shards: shards, Nested: true}, newAccount)
	must(t, err)
	if stats.Events != stats.Entries+stats.Exits+stats.Custom || stats.Calls != stats.Entries {
		t.Errorf("stats do not add up: %+v", *stats)
	}
	checkJSON(t, "account", write("account", func(w io.Writer) error {
		return writeJSON(w, c, nil, a.Report(frequency).Body(nil, account.View{}))
	}))

	s, _, err := calls.Run(src, calls.Options{Shards: shards, Paths: true},
		func() *stack.Analysis { return stack.New(stack.Options{PerThread: true}) })
	must(t, err)
	stacks := s.Report(c)
	write("stack", func(w io.Writer) error { return stacks.WriteFolded(w, nil, stack.FoldedView{}) })
	checkXML(t, "stack", write("stack svg", func(w io.Writer) error {
		return stacks.WriteSVG(w, p.names, stack.SVGView{})
	}))

	g, _, err := calls.Run(src, calls.Options{Shards: shards},
		func() *graph.Analysis { return graph.New(graph.Options{Quantiles: true}) })
	must(t, err)
	edges := g.Report(c)
	write("graph", func(w io.Writer) error { return edges.WriteDOT(w, nil, graph.DefaultView()) })
	checkXML(t, "graph", write("graph svg", func(w io.Writer) error {
		_, err := edges.WriteSVG(w, p.names, graph.DefaultView())
		return err
	}))

	k, _, err := calls.Run(src, calls.Options{Shards: shards, Opens: true},
		func() *convert.Callgrind { return convert.NewCallgrind(convert.Options{Header: tr.Header(0)}) })
	must(t, err)
	write("callgrind", k.Write)

	page := &html.Options{Frequency: frequency, Base: stats.First}
	h, _, err := calls.Run(src, calls.Options{Shards: shards, Opens: true},
		func() *html.Page { return html.New(page) })
	must(t, err)
	write("html", func(w io.Writer) error { return h.Write(w, p.names) })

	pprof := func(name string, opts convert.Options, alias func(reader.FuncID) reader.FuncID) {
		opts.Header = tr.Header(0)
		made, _, err := calls.Run(src, calls.Options{Shards: shards, Paths: true, Alias: alias},
			func() *convert.Pprof { return convert.NewPprof(opts) })
		must(t, err)
		written, err := profile.ParseData(write(name, made.Write))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		var count int64
		for _, s := range written.Sample {
			count += s.Value[0]
		}
		if uint64(count) != stats.Calls {
			t.Errorf("%s: got %d calls, want %d", name, count, stats.Calls)
		}
	}
	pprof("pprof --inlines", convert.Options{Threads: true, Names: p.names, Inlines: true}, nil)
	pprof("pprof --group-templates", convert.Options{Names: p.templates}, p.templates.Alias)

	a, _, err = calls.Run(src, calls.Options{Shards: shards, Nested: true, Alias: p.templates.Alias}, newAccount)
	must(t, err)
	write("account --group-templates", func(w io.Writer) error {
		return writeJSON(w, c, p.templates, a.Report(frequency).Body(p.templates, account.View{}))
	})
	return out
}

func writeJSON(w io.Writer, c reader.Clock, names symbolize.Names, body []report.Node) error {
	doc := report.Doc{Clock: c, Names: names, Body: body}
	return doc.Write(w, report.Style{Format: report.JSON})
}

func checkJSON(t testing.TB, name string, text []byte) {
	t.Helper()
	if !json.Valid(text) {
		t.Errorf("%s wrote invalid JSON: %.2000s", name, text)
	}
}

func checkXML(t testing.TB, name string, text []byte) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(text)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s wrote invalid XML: %v in %.2000s", name, err, text)
			return
		}
	}
}

// stream writes tables of calls, which come from one shard.
func stream(t testing.TB, tr *reader.Trace) {
	opts := convert.Options{Header: tr.Header(0)}
	src := calls.InOrder(tr, reader.ThreadOrder)
	var rows, lines bytes.Buffer
	stats, err := convert.WriteCalls(src, calls.Options{}, convert.NewCSV(&rows, opts))
	must(t, err)
	all, err := csv.NewReader(&rows).ReadAll()
	must(t, err)
	if len(all) != 1+int(stats.Calls) {
		t.Errorf("got %d rows, want %d", len(all)-1, stats.Calls)
	}
	_, err = convert.WriteCalls(src, calls.Options{}, convert.NewJSONLines(&lines, opts))
	must(t, err)
	if n := bytes.Count(lines.Bytes(), []byte("\n")); n != int(stats.Calls) {
		t.Errorf("got %d lines, want %d", n, stats.Calls)
	}
}

// timelines writes timelines, with all calls and with only the longest ones, as for a size limit.
func timelines(t testing.TB, tr *reader.Trace, p program) {
	src := calls.InOrder(tr, reader.ThreadOrder)
	counts, stats, err := calls.Run(src, calls.Options{Shards: 1}, func() *convert.LengthCounts { return &convert.LengthCounts{} })
	must(t, err)
	opts := convert.Options{Header: tr.Header(0), Names: p.names, Base: stats.First}
	choices := counts.Choices()
	for _, choice := range []convert.LengthChoice{choices[len(choices)-1], choices[len(choices)/2]} {
		opts.Shortest = choice.Shortest
		if choice.Left > 0 {
			opts.LeftOut, opts.LeftOutEvery = "some", (stats.Last-stats.First)/100+1
		}
		opts.Lost = tr.Losses().Records
		for name, f := range map[string]func(w io.Writer) convert.CallWriter{
			"perfetto":   func(w io.Writer) convert.CallWriter { return convert.NewPerfetto(w, opts) },
			"chrome":     func(w io.Writer) convert.CallWriter { return convert.NewChrome(w, opts) },
			"viztracer":  func(w io.Writer) convert.CallWriter { return convert.NewVizTracer(w, opts) },
			"speedscope": func(w io.Writer) convert.CallWriter { return convert.NewSpeedscope(w, opts) },
			"firefox":    func(w io.Writer) convert.CallWriter { return convert.NewFirefox(w, opts) },
		} {
			var b bytes.Buffer
			opens := name != "chrome" && name != "viztracer" // these show calls when they end
			_, err := convert.WriteCalls(src, calls.Options{Opens: opens}, f(&b))
			must(t, err)
			switch name {
			case "perfetto":
				checkMessages(t, b.Bytes())
			case "speedscope":
				checkSpeedscope(t, b.Bytes(), choice.Kept)
			default:
				checkJSON(t, name, b.Bytes())
			}
		}
	}
}

// checkMessages checks that a protobuf message consists of complete fields, all of them packets.
func checkMessages(t testing.TB, data []byte) {
	t.Helper()
	const packet = 1
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeField(data)
		if n < 0 || field != packet || kind != protowire.BytesType {
			t.Errorf("perfetto: field %d of kind %d: %v", field, kind, protowire.ParseError(n))
			return
		}
		data = data[n:]
	}
}

// checkSpeedscope checks that calls nest and that their number is as wanted.
func checkSpeedscope(t testing.TB, data []byte, want uint64) {
	t.Helper()
	var file struct {
		Profiles []struct {
			StartValue, EndValue int64
			Events               []struct {
				Type      string
				Frame, At int64
			}
		}
		Shared struct{ Frames []struct{ Name string } }
	}
	if err := json.Unmarshal(data, &file); err != nil {
		t.Errorf("speedscope: %v in %.2000s", err, data)
		return
	}
	var n uint64
	for _, p := range file.Profiles {
		var open []int64
		at := p.StartValue
		for _, e := range p.Events {
			if e.At < at || e.At > p.EndValue {
				t.Errorf("speedscope: an event at %d follows one at %d; the end is %d", e.At, at, p.EndValue)
			}
			at = e.At
			if e.Type == "O" {
				open = append(open, e.Frame)
				if file.Shared.Frames[e.Frame].Name != "calls omitted" {
					n++
				}
				continue
			}
			if len(open) == 0 || open[len(open)-1] != e.Frame {
				t.Errorf("speedscope: frame %d ends inside %d", e.Frame, open)
				return
			}
			open = open[:len(open)-1]
		}
		if len(open) > 0 {
			t.Errorf("speedscope: %d calls did not end", len(open))
		}
	}
	if n != want {
		t.Errorf("speedscope: got %d calls, want %d", n, want)
	}
}

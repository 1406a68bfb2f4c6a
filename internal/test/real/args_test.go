//go:build linux && amd64

package real

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
)

// recipes are those of docs/args.md, with the values that the clients sent, and how often.
var recipes = []struct {
	program, load string
	own           *load // instead of a load of the program
	args          []string
	want          func() map[string]int
}{
	{"redis", "server", nil, []string{`^call$: c->cmd->fullname, c->argc, (char *)c->argv[1]->ptr`}, func() map[string]int {
		want := map[string]int{`"incr" 2 "script"`: 500, `"eval" 3 "return redis.call('incr','script"`: 500}
		for i := range 100 {
			want[fmt.Sprintf(`"set" 3 "key:%d"`, i)] = 5
			want[fmt.Sprintf(`"incr" 2 "key:%d"`, i)] = 5
		}
		return want
	}},
	{"sqlite", "args", &load{
		name: "args",
		script: `cat > args.tcl <<-"EOF"
				sqlite3 db :memory:
				db eval {CREATE TABLE t(n, word)}
				for {set i 0} {$i < 200} {incr i} { db eval "INSERT INTO t VALUES($i, '[string repeat x $i]')" }
				puts [db eval {SELECT count(*) FROM t}]
			EOF
			"$@" "$SRC/testfixture" args.tcl`,
	}, []string{`^sqlite3VdbeExec$: p->zSql:4096`}, func() map[string]int {
		want := map[string]int{`"SELECT count(*) FROM t"`: 2} // a row, and the end
		word := ""
		for i := range 200 {
			want[fmt.Sprintf(`"INSERT INTO t VALUES(%d, '%s')"`, i, word)] = 1
			word += "x"
		}
		return want
	}},
	{"nginx", "server", nil, []string{`^ngx_http_handler$: r->uri, r->uri.size(), r->method_name`}, func() map[string]int {
		return map[string]int{`"/load.lua" 9 "GET"`: 1596, `"/missing" 8 "GET"`: 804}
	}},
	{"postgresql", "server", nil, []string{`^exec_simple_query$: query_string:80`}, func() map[string]int {
		return map[string]int{
			`"select sum(total(i)) from generate_series(1, 500) i"`: 4, `"select total(7)"`: 4, `"select 1 / 0"`: 4, `"select total(8)"`: 4,
		}
	}},
	{"leveldb", "args", &load{
		name:   "args",
		script: `"$@" "$SRC/build/db_bench" --db="$PWD/db" --num=2000 --benchmarks=fillseq,readrandom 2> progress | grep -oE '[0-9]+ of [0-9]+ found'`,
	}, []string{`DBImpl::Get: key.size()`, `WriteBatch::Put: key, key.size(), value.size()`}, func() map[string]int {
		want := map[string]int{`16`: 2000}
		for i := range 2000 {
			want[fmt.Sprintf(`"%016d" 16 100`, i)] = 1
		}
		return want
	}},
}

// The recipes give the values that the clients sent, each as often as it was sent, and the programs behave as
// unrecorded.
func TestRecipes(t *testing.T) {
	if !thorough() {
		t.Skip("set XRAY_REAL=1 to run this test")
	}
	for _, r := range recipes {
		t.Run(r.program, func(t *testing.T) {
			p := programs[slices.IndexFunc(programs, func(p program) bool { return p.name == r.program })]
			l := r.own
			if l == nil {
				l = &p.loads[slices.IndexFunc(p.loads, func(l load) bool { return l.name == r.load })]
			}
			src := p.build(t, instrumented)
			unrecorded := ""
			if l.drive == nil {
				unrecorded = outcome(t, *l, run{src: src})
			}
			record := []string{"--limit", "4G"}
			for _, a := range r.args {
				record = append(record, "--args", a)
			}
			s := startSession(t, *l, run{src: src, record: record})
			if l.drive == nil {
				if got := s.outcome(t, *l); got != unrecorded {
					t.Error("output differs from that without recording:", difference(unrecorded, got))
				}
			} else {
				if _, err := l.drive(s); err != nil {
					t.Fatalf("%v\n%s", err, s.said())
				}
				if err := errors.Join(endings[0].end(s), s.wait()); err != nil {
					t.Fatal(err)
				}
			}
			checkTraces(t, *l, s)
			got := map[string]int{}
			for _, trace := range s.traceFiles(t) {
				eachValues(t, trace, func(values string) { got[values]++ })
			}
			want := r.want()
			for _, v := range slices.Sorted(maps.Keys(want)) {
				if got[v] != want[v] {
					t.Errorf("%s: recorded %d times, sent %d times", v, got[v], want[v])
				}
			}
			if t.Failed() {
				for i, v := range slices.Sorted(maps.Keys(got)) {
					if i < 20 {
						t.Logf("recorded %d times: %s", got[v], v)
					}
				}
			}
		})
	}
}

// eachValues calls f with the values of each call of a trace that has some, in JSON, with blanks between them.
func eachValues(t *testing.T, trace string, f func(values string)) {
	t.Helper()
	cmd := exec.Command(elftest.Xray(t), "convert", "-f", "json", "-o", "-", trace)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var call struct{ Values json.RawMessage }
		if err := json.Unmarshal(lines.Bytes(), &call); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		if call.Values != nil {
			f(inOrder(t, call.Values))
		}
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
}

// inOrder returns the values of an object in JSON in their order.
func inOrder(t *testing.T, object json.RawMessage) (values string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(object))
	d.Token() // {
	for d.More() {
		if _, err := d.Token(); err != nil { // the key
			t.Fatalf("%s: %v", object, err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", object, err)
		}
		if values != "" {
			values += " "
		}
		values += string(v)
	}
	return values
}

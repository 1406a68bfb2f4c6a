package calls_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/texttrace"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
)

// valued is a trace in which function 3 has the values n, key and tags, and two results, from 1100 on, and
// only the value m before. Function 4 has one result.
var valued = `xray fdr
extents auto
thread 0
metadata process ` + "`{\"pid\":7}`" + `
metadata values ` + "`" + strings.ReplaceAll(`{"functions":[
{"id":3,"entry":[{"expression":"m","type":"int","kind":"scalar","format":"int","size":4}]},
{"id":3,"since":1100,"entry":[
{"expression":"key","type":"std::string","kind":"bytes","format":"string"},
{"expression":"n","type":"int","kind":"scalar","format":"int","size":4},
{"expression":"op","type":"Op","kind":"scalar","format":"enum","size":4,"enumerators":{"2":"GET"}}],
"exit":[
{"expression":"result.a","type":"int","kind":"scalar","format":"int","size":4},
{"expression":"result.b","type":"bool","kind":"scalar","format":"bool","size":1}]},
{"id":4,"exit":[{"expression":"result","type":"double","kind":"scalar","format":"float","size":8}]}]}`, "\n", "") + "`" + `
extents auto
thread 11 pid=7 tsc=1000
enter-arg 3 +50
arg 5
exit 3 +10
enter-arg 3 +90
arg 0xfffffffffffffff9
arg 2
metadata value "\x00\x00\x01\x00\x09\x00\x00\x00abc"
enter 4 +10
metadata result "\x00\x00\x00\x00\x00\x00\x00\x40"
exit 4 +10
metadata value "\x00\x00\x08\x00\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00"
metadata value "\x01\x00\x08\x00\x08\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"
exit 3 +10
enter-arg 3 +10
arg 0
arg 3
metadata value "\x01\x00\x02\x00\x00\x00\x00\x00"
exit 3 +10
`

// values writes the values of all calls.
type values struct {
	of   *calls.Expressions
	said []string
}

func (v *values) Merge(*values) {}

func (v *values) Calls(b *calls.Batch) error {
	for i := range b.Calls {
		var words []string
		for _, r := range v.of.Of(b, i, nil) {
			n, ok := r.Number()
			words = append(words, fmt.Sprintf("%s=%s %s %g %v %v", r.Expression.Expression, r.Text(), r.JSON(), n, ok, r.Exists()))
		}
		v.said = append(v.said, fmt.Sprintf("%d: %s", b.Calls[i].Func, strings.Join(words, ", ")))
	}
	return nil
}

func TestExpressions(t *testing.T) {
	trace := texttrace.Open(t, valued)
	of := calls.ExpressionsOf(trace.Recording(0))
	v, _, err := calls.Run(trace, calls.Options{Shards: 1}, func() *values { return &values{of: of} })
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"3: m=5 5 5 true true",
		"4: result=2 2 2 true true",
		`3: key="abc"... (9 bytes) "abc" 0 false true, n=-7 -7 -7 true true, op=GET "GET" 0 false true, ` +
			"result.a=5 5 5 true true, result.b=true true 0 false true",
		"3: n=(unreadable) null 0 false false, op=3 \"3\" 0 false true",
	}
	if diff := cmp.Diff(want, v.said); diff != "" {
		t.Error(diff)
	}
	var names []string
	for i, x := range of.All() {
		if x.ID != i {
			t.Errorf("expression %d has number %d", i, x.ID)
		}
		names = append(names, x.Expression)
	}
	if diff := cmp.Diff([]string{"key", "m", "n", "op", "result.a", "result.b", "result"}, names); diff != "" {
		t.Error(diff)
	}
}

// Damaged descriptions and values are left out, and change nothing else.
func TestExpressionsDamaged(t *testing.T) {
	for from, to := range map[string]string{
		`"expression":"n","type":"int"`:                        `"expression":""`,
		`metadata value "\x01\x00\x02\x00\x00\x00\x00\x00"`:    `metadata value "\xff\xff\x02\x00\x00\x00\x00\x00"`,
		`metadata value "\x00\x00\x01\x00\x09\x00\x00\x00abc"`: `metadata value "\x01\x00\x00\x00\x09\x00\x00\x00abc"`,
		"arg 2\n": "",
		`"id":4`:  `"id":-2147483648`,
	} {
		if !strings.Contains(valued, from) {
			t.Fatal(from)
		}
		trace := texttrace.Open(t, strings.Replace(valued, from, to, 1))
		v, _, err := calls.Run(trace, calls.Options{Shards: 1}, func() *values { return &values{of: calls.ExpressionsOf(trace.Recording(0))} })
		if err != nil || len(v.said) != 4 || v.said[0] != "3: m=5 5 5 true true" {
			t.Errorf("%s: %v %q", to, err, v.said)
		}
	}
	// What the recorder did not record after all has no values.
	trace := texttrace.Open(t, strings.Replace(valued, `"since":1100`, `"missing":"it has no exits","since":1100`, 1))
	v, _, err := calls.Run(trace, calls.Options{Shards: 1}, func() *values { return &values{of: calls.ExpressionsOf(trace.Recording(0))} })
	if err != nil || cmp.Diff(v.said, []string{"3: m=5 5 5 true true", "4: result=2 2 2 true true", "3: ", "3: "}) != "" {
		t.Errorf("missing: %v %q", err, v.said)
	}
	if calls.ExpressionsOf(nil, &reader.Recording{}) != nil {
		t.Error("there are expressions")
	}
}

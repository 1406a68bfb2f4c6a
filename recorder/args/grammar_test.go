package args

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xray-tools/xray/recorder/args/value"
)

func TestParse(t *testing.T) {
	for _, test := range []struct{ text, pattern, expressions string }{
		{"handle", "handle", ""},
		{"^ns::handle$", "^ns::handle$", ""},
		{"handle: req->id", "handle", "req->id 32"},
		{"ns::handle:req->id,n", "ns::handle", "req->id 32|n 32"},
		{"(?:get|set)[[:alpha:]:]*: key:64, key.size() , *p", "(?:get|set)[[:alpha:]:]*", "key 64|key.size() 32|*p 32"},
		{`operator\(\): this -> queue . size_`, `operator\(\)`, "this -> queue . size_ 32"},
		{"f: (char *)c->argv[1]->ptr:64, (const char*)p", "f", "(char *)c->argv[1]->ptr 64|(const char*)p 32"},
		{"f: (*p)[3].x->y.0", "f", "(*p)[3].x->y.0 32"},
	} {
		s, err := Parse(test.text)
		if err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		var list []string
		for _, e := range s.Expressions {
			list = append(list, fmt.Sprintf("%s %d", e.Text, e.Limit))
		}
		if got := strings.Join(list, "|"); s.Pattern != test.pattern || got != test.expressions {
			t.Errorf("%s: got %q, %q", test.text, s.Pattern, got)
		}
	}
	for text, want := range map[string]string{
		"":                                     "no function",
		": a":                                  "no function",
		"f(: a":                                "missing closing )",
		"f: ":                                  `position 4 of "f: ": expected the name of a parameter instead of the end`,
		"f: a,":                                `position 6 of "f: a,": expected the name of a parameter instead of the end`,
		"f: a.":                                `position 6 of "f: a.": expected the name of a member`,
		"f: a->3x":                             `position 8 of "f: a->3x": expected a comma or the end instead of "x"`,
		"f: a b":                               `position 6 of "f: a b": expected a comma or the end instead of "b"`,
		"f: a.size(3)":                         `position 11 of "f: a.size(3)": expected ")": only functions without arguments`,
		"f: a[i]":                              `position 6 of "f: a[i]": expected a number instead of "i]"`,
		"f: a[1":                               `expected "]" instead of the end`,
		"f: a[99999999999]":                    `expected a number`,
		"f: (a":                                `expected ")"`,
		"f: (long)a":                           `expected a comma or the end instead of "a"`,
		"f: a:0":                               "a string can have 1 to 4096 bytes",
		"f: a:9999":                            "a string can have 1 to 4096 bytes",
		"f: a: x":                              "expected a number of bytes",
		"f: " + strings.Repeat("*", 50) + "a":  "more than 32 operators",
		"f: a" + strings.Repeat("[0]", 50):     "more than 32 operators",
		"f: " + strings.Repeat("a,", 16) + "a": "more than 16 expressions",
		"f: " + strings.Repeat("(", 50) + "a":  "more than 32 operators",
		"f: a" + strings.Repeat("b", 5000):     "more than 4096 bytes",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got error %v, want %s", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("f: (char *)*p->x:9, *(char*)p")
	f.Add("(?:get|set)[[:alpha:]:]*: key:64, key.size() , *p, (*p)[3].x->y.0")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		for _, e := range s.Expressions {
			again, err := parseExpression(e.Text)
			if err != nil || fmt.Sprint(len(again.ops), again.root) != fmt.Sprint(len(e.ops), e.root) {
				t.Errorf("%q: %q is not the same expression: %v", text, e.Text, err)
			}
		}
	})
}

func TestValidate(t *testing.T) {
	end := Step{Op: SCALAR}
	for _, test := range []struct {
		p  Program
		ok bool
	}{
		{Program{{Op: REG, A: 15}, end}, true},
		{Program{{Op: JZ, K: 1}, end, {Op: NONE, A: 1}}, true},
		{nil, false},
		{Program{{Op: REG, A: 16}, end}, false},
		{Program{{Op: XMM, B: 2}, end}, false},
		{Program{{Op: LOAD, A: 3}, end}, false},
		{Program{{Op: SHL, K: 64}, end}, false},
		{Program{{Op: JZ, K: 1}, end}, false},
		{Program{{Op: JUMP, K: -1}, end}, false},
		{Program{{Op: BYTES, K: MaxLimit + 1}}, false},
		{Program{{Op: 15}, end}, false},
		{Program{{Op: MOVE}}, false},
		{append(make(Program, 0, 40), Program{31: {Op: SWAP}}...), false},
	} {
		if err := Validate(test.p); (err == nil) != test.ok {
			t.Errorf("%v: got error %v", test.p, err)
		}
	}
	f := FunctionPrograms{ID: 7, Entry: []Program{{{Op: LOAD, A: 8, B: 1, K: -2}, end}}, Exit: []Program{{end}}}
	const want = "\a\x00\x00\x00\x01\x00\x01\x00" + "\x02\x00\x00\x00\x00\x00\x00\x00" + "\x05\b\x01\x00\xfe\xff\xff\xff" + "\x14\x00\x00\x00\x00\x00\x00\x00" +
		"\x01\x00\x00\x00\x00\x00\x00\x00" + "\x14\x00\x00\x00\x00\x00\x00\x00"
	if got := string(f.Append(nil)); got != want {
		t.Errorf("got %q", got)
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"f: n == 3":                 "",
		"a::f: p->q.size() >= 0x10": "",
		"f: s == 'a b'":             "",
		`f: s ^= ""`:                "",
		"f: s:100 *= \"x\"":         "",
		"f: n > 3 and n<9":          "",
		"f: s == 'x and y' and n == 3 and a and b == 4":         "expected one of ==",
		"f: a == 1 and b == 2 and c == 3 and d == 4 and e == 5": "at most 4 comparisons",
		"f: a == 1 and ":  "expected",
		"f":               "no condition",
		"f: n":            "expected one of ==",
		"f: n = 3":        "expected one of ==",
		"f: n ==":         "expected a number",
		"f: n ^= 3":       "only texts",
		"f: n < 'x'":      "texts are compared by",
		"f: s:200 == 'x'": "at most 192 bytes",
		"[: n == 3":       "no condition",
		"f: s == '" + strings.Repeat("x", 65) + "'": "at most 64 bytes",
	} {
		c, err := ParseCondition(text)
		if got := fmt.Sprint(err); want == "" && err != nil || want != "" && !strings.Contains(got, want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
		if err == nil && len(c.Expressions) != 1+strings.Count(text, " and n") {
			t.Errorf("%q: got %+v", text, c)
		}
	}
}

// What a condition compares with fits the value's type.
func TestConditionOperands(t *testing.T) {
	t.Parallel()
	status := map[string]string{"-1": "bad", "3": "net::Op::get"}
	for _, c := range []struct {
		d    value.Description
		word string
		n    int64
		kind byte
	}{
		{value.Description{Format: value.Int, Size: 4}, "-3", -3, signedNumber},
		{value.Description{Format: value.Uint, Size: 1}, "0xff", 255, unsignedNumber},
		{value.Description{Format: value.Bool, Size: 1}, "true", 1, unsignedNumber},
		{value.Description{Format: value.Pointer, Size: 8}, "nullptr", 0, unsignedNumber},
		{value.Description{Format: value.Enum, Size: 4, Signed: true, Enumerators: status}, "bad", -1, signedNumber},
		{value.Description{Format: value.Enum, Size: 1, Enumerators: status}, "get", 3, unsignedNumber},
		{value.Description{Format: value.Enum, Size: 1, Enumerators: status}, "Op::get", 3, unsignedNumber},
		{value.Description{Format: value.Duration, Size: 8, Unit: "1000000/1", Signed: true}, "5ms", 5, signedNumber},
		{value.Description{Format: value.Duration, Size: 8, Unit: "1000000/1", Signed: true}, "7", 7, signedNumber},
		{value.Description{Format: value.Float, Size: 8}, "-1.5", -0x4008 << 48, floatingNumber},
		{value.Description{Format: value.Float, Size: 4}, "0.1", 0x3dcccccd, floatingNumber},
		{value.Description{Format: value.Duration, Size: 8, Unit: "1000000000/1", Float: true}, "500ms", 0x3fe0 << 48, floatingNumber},
		{value.Description{Format: value.Duration, Size: 4, Unit: "1/1", Float: true}, "2", 0x40000000, floatingNumber},
	} {
		if n, kind, err := operandOf(&c.d, c.word); err != nil || int64(n) != c.n || kind != c.kind {
			t.Errorf("%+v, %s: got %d, %v, %v", c.d, c.word, int64(n), kind, err)
		}
	}
	for word, d := range map[string]value.Description{
		"256": {Format: value.Uint, Size: 1}, "-1": {Format: value.Uint, Size: 8}, "128": {Format: value.Int, Size: 1}, "x": {Format: value.Int, Size: 4},
		"nan": {Format: value.Float, Size: 8}, "1e39": {Format: value.Float, Size: 4}, "5us": {Format: value.Duration, Size: 8, Unit: "1000000/1"}, "put": {Format: value.Enum, Size: 4, Enumerators: status},
		"3": {Format: value.Uint, Size: 3},
	} {
		if n, _, err := operandOf(&d, word); err == nil {
			t.Errorf("%+v, %s: got %d", d, word, n)
		}
	}
}

func FuzzCondition(f *testing.F) {
	for _, text := range []string{"f: n == 3", "f: s ^= 'x'", "a::f(int)$: p[3]->q.size() >= 0x10", "f: s:9 *= \"", "f: = '", "(x: y < z", "f: a == 'x and ' and b < 2.5"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCondition(text)
		if err != nil {
			return
		}
		if len(c.Expressions) != len(c.tests) || len(c.tests) == 0 || len(c.tests) > maxTests {
			t.Fatalf("%q: got %+v", text, c)
		}
		d := value.Description{Format: value.Duration, Size: 4, Unit: "1000/3"}
		for i, x := range c.tests {
			if x.op == 0 || len(x.word) > maxWord || c.Expressions[i].Limit > maxCompared {
				t.Errorf("%q: got %+v", text, x)
			}
			_, _, _ = operandOf(&d, x.word)
		}
	})
}

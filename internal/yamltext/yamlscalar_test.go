package yamltext

import (
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"
)

// scalars are what llvm-xray 22 prints.
var scalars = []struct{ in, want string }{
	{"", "''"},
	{"a", "a"},
	{"yes", "yes"},
	{"on", "on"},
	{"true", "'true'"},
	{"tRue", "tRue"},
	{"Null", "'Null'"},
	{"~", "'~'"},
	{"-", "'-'"},
	{"+", "'+'"},
	{"-1", "'-1'"},
	{"3", "'3'"},
	{"+1.5", "'+1.5'"},
	{"1e5", "'1e5'"},
	{"1e", "1e"},
	{"1e+", "'1e+'"},
	{"e5", "e5"},
	{"1.e5", "'1.e5'"},
	{"5.", "'5.'"},
	{".5", "'.5'"},
	{".", "."},
	{"..", ".."},
	{".e5", ".e5"},
	{"...", "..."},
	{"---", "'---'"},
	{"1.5.2", "1.5.2"},
	{"0x1F", "'0x1F'"},
	{"0x", "0x"},
	{"0o17", "'0o17'"},
	{"0o8", "0o8"},
	{".nan", "'.nan'"},
	{"-.nan", "'-.nan'"},
	{".inf", "'.inf'"},
	{"1_000", "1_000"},
	{" a", "' a'"},
	{"a\t", "'a\t'"},
	{"a\tb", "a\tb"},
	{"a b", "a b"},
	{"'a", "'''a'"},
	{"a'b'c", "'a''b''c'"},
	{"a^b-c", "a^b-c"},
	{"a/b", "'a/b'"},
	{`a\b`, `'a\b'`},
	{"a+b", "'a+b'"},
	{"foo<int>(a, b)", "'foo<int>(a, b)'"},
	{"_Z3foov", "_Z3foov"},
	{"foo.cold", "foo.cold"},
	{"@(1234)", "'@(1234)'"},
	{`operator"" _q(char)`, `'operator"" _q(char)'`},
	{"+.inf", "'+.inf'"},
	{"a\nb", `"a\nb"`},
	{"a\x7fb", "\"a\x7fb\""},
	{"a\x00b", `"a\0b"`},
	{"\x07\b\t\n\v\f\r\x1b\x01\x1f\"\\", `"\a\b\t\n\v\f\r\e\x01\x1F\"\\"`},
	{"\u00e9", "\"\u00e9\""},
	{"\u0085\u00a0\u2028\u2029", `"\N\_\L\P"`},
	{"\u00ad\u2003\U0001F600", "\"\u00ad\u2003\U0001F600\""},
	{"\u200b\ufeff\U0010ffff", `"\u200B\uFEFF\U0010FFFF"`},
}

func TestAppend(t *testing.T) {
	for _, test := range scalars {
		if got := string(AppendScalar(nil, test.in)); got != test.want {
			t.Errorf("%q: got %s, want %s", test.in, got, test.want)
		}
	}
}

// TestAppendDiffersFromLLVM has the strings that LLVM cannot read back.
func TestAppendDiffersFromLLVM(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"a,b", "'a,b'"},
		{"\x80", `"\x80"`},
		{"\u0080", `"\u0080"`},
		{"ok\xff\xc3\u00e9\xe2\x80", "\"ok\\xFF\\xC3\u00e9\\xE2\\x80\""},
	} {
		if got := string(AppendScalar(nil, test.in)); got != test.want {
			t.Errorf("%q: got %s, want %s", test.in, got, test.want)
		}
	}
}

// TestLibraryReadsBack reads scalars of text with a YAML library.
func TestLibraryReadsBack(t *testing.T) {
	special := rapid.RuneFrom([]rune("ab01:, '\"\\{}[]#&*!|>%@`-?~.exo+\t\n\r\x00\x1b\u00e9\u0085\u2028"))
	texts := rapid.OneOf(rapid.StringOf(special), rapid.String()).Filter(func(s string) bool {
		// YAML does not allow DEL, though LLVM writes and reads it.
		return utf8.ValidString(s) && !strings.ContainsAny(s, "\x7f\ufffe\uffff")
	})
	rapid.Check(t, func(t *rapid.T) {
		want := texts.Draw(t, "string")
		text := "{ data: " + string(AppendScalar(nil, want)) + ", other: 1 }"
		var got struct {
			Data  string
			Other int
		}
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got.Data != want || got.Other != 1 {
			t.Fatalf("%q: got %s, which reads as %q", want, text, got.Data)
		}
	})
}

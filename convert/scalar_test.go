package convert

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	yaml "go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"github.com/xray-tools/xray/internal/testenv"
	"github.com/xray-tools/xray/reader"
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
	{"a\nb", `"a\nb"`},
	{"a\x7fb", "\"a\x7fb\""},
	{"a\x00b", `"a\0b"`},
	{"\x07\b\t\n\v\f\r\x1b\x01\x1f\"\\", `"\a\b\t\n\v\f\r\e\x01\x1F\"\\"`},
	{"\u00e9", "\"\u00e9\""},
	{"\u0085\u00a0\u2028\u2029", `"\N\_\L\P"`},
	{"\u00ad\u2003\U0001F600", "\"\u00ad\u2003\U0001F600\""},
	{"\u200b\ufeff\U0010ffff", `"\u200B\uFEFF\U0010FFFF"`},
}

func TestScalar(t *testing.T) {
	for _, test := range scalars {
		if got := string(appendScalar(nil, test.in)); got != test.want {
			t.Errorf("%q is written %s, want %s", test.in, got, test.want)
		}
	}
}

// TestScalarDiffersFromLLVM has the strings that LLVM cannot read back.
func TestScalarDiffersFromLLVM(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"a,b", "'a,b'"},
		{"\x80", `"\x80"`},
		{"\u0080", `"\u0080"`},
		{"ok\xff\xc3\u00e9\xe2\x80", "\"ok\\xFF\\xC3\u00e9\\xE2\\x80\""},
	} {
		if got := string(appendScalar(nil, test.in)); got != test.want {
			t.Errorf("%q is written %s, want %s", test.in, got, test.want)
		}
	}
}

// TestScalarInLibrary reads scalars of text with a YAML library.
func TestScalarInLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := genHostileName.Draw(t, "string")
		text := "{ data: " + string(appendScalar(nil, want)) + " }"
		if strings.ContainsAny(text, "\x7f\ufffe\uffff") || !utf8.ValidString(want) {
			t.Skip("YAML allows neither DEL, though LLVM writes and reads it, nor bytes")
		}
		var got struct{ Data string }
		if err := yaml.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got.Data != want {
			t.Fatalf("%q is written %s, which reads as %q", want, text, got.Data)
		}
	})
}

// TestScalarIsLLVMs has llvm-xray write random payloads and compares the text.
func TestScalarIsLLVMs(t *testing.T) {
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
		// What llvm-xray reads is written here with nothing but escapes, so
		// that this side of the test does not depend on what is tested.
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
			t.Fatalf("llvm-xray (-) and this package (+) differ:\n%s", diff)
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

// llvmConvert has llvm-xray convert trace YAML, which it puts into file.
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

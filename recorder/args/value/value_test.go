package value

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"strings"
	"testing"
)

func wide(low, high uint64) Recorded {
	return Recorded{Data: binary.LittleEndian.AppendUint64(Of(low).Data, high)}
}

func TestText(t *testing.T) {
	minus := func(n int64) uint64 { return uint64(-n) }
	for _, test := range []struct {
		d          Description
		r          Recorded
		text, json string
	}{
		{Description{Format: Int, Size: 4}, Of(minus(7)), "-7", "-7"},
		{Description{Format: Int, Size: 4}, Of(0x5555_0000_0000 | 0xFFFF_FFF9), "-7", "-7"},
		{Description{Format: Uint, Size: 1}, Of(0x1FF), "255", "255"},
		{Description{Format: Uint, Size: 8}, Of(math.MaxUint64), "18446744073709551615", `"18446744073709551615"`},
		{Description{Format: Bool, Size: 1}, Of(1), "true", "true"},
		{Description{Format: Bool, Size: 1}, Of(7), "7", "7"},
		{Description{Format: Char, Size: 1}, Of('a'), "'a'", `"'a'"`},
		{Description{Format: Char, Size: 1}, Of('\n'), `'\n'`, `"'\\n'"`},
		{Description{Format: Char, Size: 1}, Of(0xE4), "228", `"228"`},
		{Description{Format: Char, Size: 4}, Of(0x1F600), `'\U0001f600'`, `"'\\U0001f600'"`},
		{Description{Format: Pointer, Size: 8}, Of(0xABC), "0xabc", `"0xabc"`},
		{Description{Format: Enum, Size: 4, Enumerators: map[string]string{"2": "GET"}}, Of(2), "GET", `"GET"`},
		{Description{Format: Enum, Size: 4, Signed: true, Enumerators: map[string]string{"-1": "BAD"}}, Of(0xFFFFFFFF), "BAD", `"BAD"`},
		{Description{Format: Enum, Size: 4}, Of(3), "3", `"3"`},
		{Description{Format: Float, Size: 4}, Of(uint64(math.Float32bits(0.1))), "0.1", "0.1"},
		{Description{Format: Float, Size: 8}, Of(math.Float64bits(-2.5e300)), "-2.5e+300", "-2.5e+300"},
		{Description{Format: Float, Size: 8}, Of(math.Float64bits(math.Inf(1))), "+Inf", `"+Inf"`},
		{Description{Kind: Wide, Format: Float, Size: 10}, wide(0xC000000000000000, 0x4000), "3", `"3"`},
		{Description{Kind: Wide, Format: Int, Size: 16}, wide(minus(5), math.MaxUint64), "-5", `"-5"`},
		{Description{Kind: Wide, Format: Uint, Size: 16}, wide(0, 1), "18446744073709551616", `"18446744073709551616"`},
		{Description{Kind: Wide, Format: Uint, Size: 16}, Of(1), "(damaged)", `"(damaged)"`},
		{Description{Kind: Bytes, Format: String}, Recorded{Data: []byte("a\"\x00\xff")}, `"a\"\x00\xff"`, `"a\"\u0000` + "\uFFFD" + `"`},
		{Description{Kind: Bytes, Format: String}, Recorded{Truncated, 900, []byte("abc")}, `"abc"... (900 bytes)`, `"abc"`},
		{Description{Kind: Bytes, Format: String}, Recorded{Truncated, 3, []byte("abc")}, `"abc"...`, `"abc"`},
		{Description{Kind: Bytes, Format: String}, Recorded{Truncated, math.MaxUint32, []byte("abc")}, `"abc"...`, `"abc"`},
		{Description{Kind: Bytes, Format: String, Size: 8}, Recorded{0, 8, []byte("ab\x00defgh")}, `"ab"`, `"ab"`},
		{Description{Kind: Bytes, Format: String}, Recorded{Flags: None}, "(none)", "null"},
		{Description{Format: Int}, Recorded{Flags: Unreadable}, "(unreadable)", "null"},
		{Description{Format: Duration, Size: 8, Signed: true, Unit: "1/1"}, Of(1500), "1.5us", `"1.5us"`},
		{Description{Format: Duration, Size: 8, Signed: true, Unit: "1000000/1"}, Of(minus(250)), "-250ms", `"-250ms"`},
		{Description{Format: Duration, Size: 8, Signed: true, Unit: "1/1"}, Of(1234567891), "1.234567891s", `"1.234567891s"`},
		{Description{Format: Duration, Size: 8, Unit: "60000000000/1"}, Of(2), "120s", `"120s"`},
		{Description{Format: Duration, Size: 8, Unit: "1/3"}, Of(1), "1 ticks of 1/3ns", `"1 ticks of 1/3ns"`},
		{Description{Format: Duration, Size: 8, Float: true, Unit: "1000000000/1"}, Of(math.Float64bits(0.25)), "250ms", `"250ms"`},
	} {
		if test.d.Kind == "" {
			test.d.Kind = Scalar
		}
		if got := test.d.Text(test.r); got != test.text {
			t.Errorf("%+v: got %s, want %s", test, got, test.text)
		}
		if got := test.d.JSON(test.r); string(got) != test.json {
			t.Errorf("%+v: got JSON %s, want %s", test, got, test.json)
		}
	}
}

// Descriptions and values of damaged traces become one line of text and valid JSON.
func FuzzText(f *testing.F) {
	f.Add([]byte(`{"kind":"scalar","format":"duration","size":8,"unit":"1/0"}`), []byte("12345678"), uint16(1), uint32(9))
	f.Add([]byte(`{"kind":"wide","format":"float","size":10}`), make([]byte, 16), uint16(0), uint32(0))
	f.Add([]byte(`{"kind":"bytes","format":"string","size":3}`), []byte("a\x00b"), uint16(1), uint32(7))
	f.Fuzz(func(t *testing.T, description, data []byte, flags uint16, length uint32) {
		var d Description
		if json.Unmarshal(description, &d) != nil {
			return
		}
		r := Recorded{flags, length, data}
		if text := d.Text(r); text == "" || strings.ContainsAny(text, "\n\r\x1b") || len(text) > 1000+8*len(data)+4*len(description) {
			t.Errorf("text %q", text)
		}
		if b := d.JSON(r); !json.Valid(b) {
			t.Errorf("JSON %s", b)
		}
	})
}

func TestNumber(t *testing.T) {
	for _, test := range []struct {
		d    Description
		r    Recorded
		want float64
		ok   bool
	}{
		{Description{Kind: Scalar, Format: Int, Size: 4}, Of(0xFFFF_FFF9), -7, true},
		{Description{Kind: Scalar, Format: Uint, Size: 8}, Of(math.MaxUint64), 1 << 64, true},
		{Description{Kind: Scalar, Format: Float, Size: 4}, Of(uint64(math.Float32bits(0.5))), 0.5, true},
		{Description{Kind: Scalar, Format: Float, Size: 8}, Of(math.Float64bits(math.NaN())), 0, false},
		{Description{Kind: Scalar, Format: Duration, Size: 8, Signed: true, Unit: "1000/1"}, Of(7), 7000, true},
		{Description{Kind: Scalar, Format: Duration, Size: 8, Unit: "1/0"}, Of(7), 0, false},
		{Description{Kind: Wide, Format: Uint, Size: 16}, wide(0, 1), 1 << 64, true},
		{Description{Kind: Wide, Format: Uint, Size: 16}, Of(1), 0, false},
		{Description{Kind: Scalar, Format: Int, Size: 4}, Recorded{Flags: None}, 0, false},
		{Description{Kind: Bytes, Format: String}, Recorded{Data: []byte("12345678")}, 0, false},
	} {
		got, ok := test.d.Number(test.r)
		if ok != test.ok || ok && got != test.want {
			t.Errorf("%+v: got %g, %v", test, got, ok)
		}
		if test.d.Kind == Scalar && test.r.Data != nil {
			if f, ok := test.d.NumberOf(binary.LittleEndian.Uint64(test.r.Data)); ok != test.ok || ok && f != got {
				t.Errorf("%+v: as a scalar %g, %v", test, f, ok)
			}
		}
	}
}

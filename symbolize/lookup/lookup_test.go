package lookup

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Query{
		"17":         {number: 17},
		"#17":        {number: 17},
		"-1":         {number: 1<<32 - 1},
		"4294967295": {number: 1<<32 - 1},
		"0x4a10":     {number: 0x4a10, address: true},
		"2:17":       {object: 2, number: 17},
		"255:0x10":   {object: 255, number: 16, address: true},
	} {
		want.text = text
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "x", "0x", "256:1", "1:-1", "1:16777216", "4294967296", "-2147483649", "0x10000000000000000"} {
		if q, err := Parse(text); !errors.As(err, new(*Error)) {
			t.Errorf("%q: %+v, %v", text, q, err)
		}
	}
}

// An error in the second line names that line, and is a mistake of the query. A line that is too long is none.
func TestReadErrors(t *testing.T) {
	t.Parallel()
	_, err := Read(nil, strings.NewReader("17\n\nx\n"))
	if !errors.As(err, new(*Error)) || !strings.Contains(err.Error(), "line 3") {
		t.Errorf("a wrong line: %v", err)
	}
	_, err = Read(nil, strings.NewReader("17\n"+strings.Repeat("1", 1<<20)))
	if err == nil || errors.As(err, new(*Error)) || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a long line: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"17", "#1", "2:0x4010", "-1", "0xffffffffffffffff", ":"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		switch q, err := Parse(text); {
		case err != nil && !errors.As(err, new(*Error)):
			t.Errorf("%q: %v", text, err)
		case err == nil && (q.object < 0 || q.object > 255 || !q.address && q.number >= 1<<32):
			t.Errorf("%q: %+v", text, q)
		}
	})
}

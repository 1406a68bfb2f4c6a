package fileio

import "testing"

func TestParse(t *testing.T) {
	for text, want := range map[string]int64{"0": 0, "17": 17, "2K": 2048, "3m": 3 << 20, "4G": 4 << 30, "5T": 5 << 40,
		"": -1, "G": -1, "1KK": -1, "-1": -1, "1.5G": -1, "9999999999999T": -1, "1 G": -1} {
		n, ok := ParseSize(text)
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q: got %d, want %d", text, n, want)
		}
	}
}

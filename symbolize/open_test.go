package symbolize_test

import (
	"strings"
	"testing"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Files are assigned to objects by the given numbers, and errors name the files.
func TestOpen(t *testing.T) {
	for _, c := range []struct {
		trace string
		files map[int]string
		want  string // the name of function 3, or part of the error
	}{
		{"kvserver-fdr.xray", nil, "#3"},
		{"kvserver-fdr.xray", map[int]string{0: "kvserver.yaml"}, "kv::hash(unsigned long)"},
		{"kvserver-fdr.xray", map[int]string{4: "kvserver.yaml"}, "#3"},
		{"kvserver-fdr.xray", map[int]string{0: "kvserver.yaml", 256: "dso.yaml"}, "dso.yaml: there is no object 256"},
		{"kvserver-fdr.xray", map[int]string{0: "kvserver.yaml", 1: "no such file"}, "no such file"},
		{"kvserver-recorded.xray", map[int]string{0: "kvserver"}, "kv::hash(unsigned long)"},
		{"kvserver-recorded.xray", map[int]string{99: "kvserver"}, "kvserver: there is no object 99"},
		{"kvserver-recorded.xray", map[int]string{0: "no such file"}, "no such file"},
	} {
		trace, err := reader.Open(reader.Options{}, "../testdata/"+c.trace)
		if err != nil {
			t.Fatal(err)
		}
		defer trace.Close()
		files := make(map[int]string)
		for n, name := range c.files {
			files[n] = "../testdata/" + name
		}
		got := ""
		names, err := symbolize.Open(trace, files, symbolize.Search{})
		if err != nil {
			got = err.Error()
		} else {
			got = symbolize.Label(names.Names, 3)
			if err := names.Close(); err != nil {
				t.Error(err)
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s with %v: got %q, want %q", c.trace, c.files, got, c.want)
		}
	}
}

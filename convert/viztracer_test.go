package convert

import (
	"encoding/json"
	"errors"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// placed are functions with a file and a line.
type placed map[reader.FuncID]symbolize.Symbol

func (p placed) Func(id reader.FuncID) (symbolize.Symbol, bool) {
	s, ok := p[id]
	return s, ok
}

func TestVizTracer(t *testing.T) {
	opts := Options{Names: placed{
		1: {Name: "main", File: "a.c", Line: 7},
		2: {Name: "twin", File: "a.c", Line: 9},
		3: {Name: "twin", File: "b.c", Line: 1},
		4: {Name: "lost \"\\", File: "lost.c", Line: 2},
		5: {Name: "no line", File: "no.c"},
		6: {Name: "not called", File: "not.c", Line: 1},
	}}
	batch := &calls.Batch{}
	for id := range 6 {
		batch.Calls = append(batch.Calls, calls.Call{Func: reader.FuncID(id), Start: uint64(10 * id), Duration: 1})
	}
	read := func(path string) ([]byte, error) {
		if path == "lost.c" {
			return nil, errors.New("not here")
		}
		return []byte("text of\n" + path + "\n\xff"), nil
	}
	for name, test := range map[string]struct {
		read  func(string) ([]byte, error)
		files string
	}{
		"with source":    {read, `{"a.c":["text of\na.c\n�",2],"lost.c":["",0]}`},
		"without source": {nil, `{"a.c":["",0],"lost.c":["",0]}`},
	} {
		opts.Source = test.read
		text := write(t, NewVizTracer, opts, batch)
		var got struct {
			TraceEvents []any `json:"traceEvents"`
			FileInfo    struct {
				Files, Functions json.RawMessage
			} `json:"file_info"`
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%s: %v in %s", name, err, text)
		}
		if n := len(got.TraceEvents); n != 8 {
			t.Errorf("%s: got %d events, want 6 calls and 2 names", name, n)
		}
		var compact [2]any
		for i, raw := range []json.RawMessage{got.FileInfo.Files, got.FileInfo.Functions} {
			if err := json.Unmarshal(raw, &compact[i]); err != nil {
				t.Fatal(err)
			}
		}
		var want [2]any
		for i, raw := range []string{test.files, `{"main":["a.c",7],"twin":["a.c",9],"lost \"\\":["lost.c",2]}`} {
			if err := json.Unmarshal([]byte(raw), &want[i]); err != nil {
				t.Fatal(err)
			}
		}
		if diff := gocmp.Diff(want, compact); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The total size of sources is limited. Files beyond the limit are omitted.
func TestVizTracerBoundsSources(t *testing.T) {
	s := &sources{read: func(string) ([]byte, error) { return make([]byte, 60), nil }, left: 100}
	if a, b := s.text("a"), s.text("b"); len(a) != 60 || b != "" {
		t.Errorf("got %d bytes, then %d", len(a), len(b))
	}
}

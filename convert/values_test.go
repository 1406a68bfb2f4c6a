package convert

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/recorder/args/value"
)

// valuedBatch is a call with arguments of all kinds and a result, and one of another function without them.
func valuedBatch() (*calls.Expressions, *calls.Batch) {
	of := calls.ExpressionsOf(&reader.Recording{Values: []reader.RecordedValues{{
		ID: 1,
		Entry: []value.Description{
			{Expression: "key", Kind: value.Bytes, Format: value.String},
			{Expression: "n", Kind: value.Scalar, Format: value.Int, Size: 4},
			{Expression: "ratio", Kind: value.Scalar, Format: value.Float, Size: 8},
			{Expression: "hot", Kind: value.Scalar, Format: value.Bool, Size: 1},
			{Expression: "next", Kind: value.Scalar, Format: value.Pointer, Size: 8},
			{Expression: "next->id", Kind: value.Bytes, Format: value.String},
			{Expression: "tail", Kind: value.Bytes, Format: value.String},
		},
		Exit: []value.Description{{Expression: "result", Kind: value.Scalar, Format: value.Int, Size: 4}},
	}}})
	event := func(index uint16, flags uint16, length uint32, data string) calls.Value {
		return calls.Value{Value: reader.Value{Index: index, Recorded: value.Recorded{Flags: flags, Length: length, Data: []byte(data)}}}
	}
	return of, &calls.Batch{
		Calls: []calls.Call{{Start: 10, Duration: 5, Self: 5, Func: 1, Args: true}, {Start: 20, Duration: 5, Self: 5, Func: 2}},
		Opens: []calls.Open{{Start: 10, Func: 1}, {Start: 20, Func: 2, Call: 1}},
		Args:  []calls.Arg{{Value: math.MaxUint32}, {Value: math.Float64bits(0.5)}, {Value: 1}, {}},
		Values: []calls.Value{
			event(0, 0, 3, `a"b`), event(5, value.None, 1, ""), event(6, value.Truncated, 9, "abc"),
		},
		Results: []calls.Arg{{Value: 7}},
		Last:    true,
	}
}

// Every format that has a place for arguments and results has them with their names and types.
func TestValues(t *testing.T) {
	t.Parallel()
	of, b := valuedBatch()
	opts := Options{Header: oneGHz, Values: of}
	for name, c := range map[string]struct {
		write func(io.Writer, Options) CallWriter
		want  string
	}{
		"csv": {func(w io.Writer, o Options) CallWriter { return NewCSV(w, o) },
			`,"{""key"":""a\""b"",""n"":-1,""ratio"":0.5,""hot"":true,""next"":""0x0"",""next->id"":null,""tail"":""abc""}","{""result"":7}"` + "\n"},
		"json": {func(w io.Writer, o Options) CallWriter { return NewJSONLines(w, o) },
			`"values":{"key":"a\"b","n":-1,"ratio":0.5,"hot":true,"next":"0x0","next->id":null,"tail":"abc"},"results":{"result":7}}`},
		"chrome": {func(w io.Writer, o Options) CallWriter { return NewChrome(w, o) },
			`"values":{"key":"a\"b","n":-1,"ratio":0.5,"hot":true,"next":"0x0","next->id":null,"tail":"abc"},"results":{"result":7}}`},
		"firefox": {func(w io.Writer, o Options) CallWriter { return NewFirefox(w, o) },
			`"arguments":"key: \"a\\\"b\", n: -1, ratio: 0.5, hot: true, next: 0x0, next->id: (none), tail: \"abc\"... (9 bytes), result: 7"`},
	} {
		out := strings.ReplaceAll(write(t, c.write, opts, b), `\u003e`, ">")
		if strings.Count(out, c.want) != 1 {
			t.Errorf("%s has no\n%s\nbut\n%s", name, c.want, out)
		}
	}
	// Without values, nothing changes.
	for name, newSink := range map[string]func(io.Writer, Options) CallWriter{
		"csv": func(w io.Writer, o Options) CallWriter { return NewCSV(w, o) },
	} {
		if out := write(t, newSink, Options{Header: oneGHz}, b); strings.Contains(out, "values") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// Perfetto's annotations have the types of the values, and only of the call that has them.
func TestPerfettoValues(t *testing.T) {
	t.Parallel()
	of, b := valuedBatch()
	var got []string
	each(t, []byte(write(t, NewPerfetto, Options{Header: oneGHz, Values: of}, b)), func(_ protowire.Number, _ uint64, packet []byte) {
		each(t, packet, func(field protowire.Number, _ uint64, event []byte) {
			if field != packetTrackEvent {
				return
			}
			each(t, event, func(field protowire.Number, _ uint64, annotation []byte) {
				if field != eventAnnotation {
					return
				}
				var name, text string
				each(t, annotation, func(field protowire.Number, v uint64, data []byte) {
					switch field {
					case annotationName:
						name = string(data)
					case annotationBool:
						text = map[uint64]string{0: "false", 1: "true"}[v]
					case annotationInt:
						text = strconv.FormatInt(int64(v), 10)
					case annotationDouble:
						text = fmt.Sprint(math.Float64frombits(v))
					case annotationText:
						text = string(data)
					}
				})
				got = append(got, name+"="+text)
			})
		})
	})
	want := []string{`key=a"b`, "n=-1", "ratio=0.5", "hot=true", "next=0x0", "next->id=(none)", `tail="abc"... (9 bytes)`, "result=7"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Package texttrace opens traces that tests write as text.
package texttrace

import (
	"bytes"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// T is a test, also one of package rapid.
type T interface {
	Helper()
	Fatalf(format string, args ...any)
}

// Open opens the trace that text describes, see package tracetext. It ends the test if that fails.
func Open(t T, text string) *reader.Trace {
	t.Helper()
	log, err := tracetext.Parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(log), int64(len(log)), "trace")
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return trace
}

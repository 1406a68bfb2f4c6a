package reader_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/reader"
)

// Command is the command line as started, even if the server changed it later.
func TestCommandAsStarted(t *testing.T) {
	data, err := tracetext.Parse("xray fdr free=5852594d46445231\nthread 0 tsc=1000\n" +
		"metadata process `{\"pid\":7,\"argv\":[\"nginx\",\"-g\",\"x\"]}`\n" +
		"metadata process `{\"pid\":7,\"argv\":[\"nginx: worker process\"],\"complete\":true}`\n")
	if err != nil {
		t.Fatal(err)
	}
	trace, err := reader.OpenReaderAt(bytes.NewReader(data), int64(len(data)), "trace")
	if err != nil {
		t.Fatal(err)
	}
	if p := trace.Recording(0).Process; !slices.Equal(p.Argv, []string{"nginx", "-g", "x"}) || !p.Complete {
		t.Errorf("got %+v", p)
	}
}

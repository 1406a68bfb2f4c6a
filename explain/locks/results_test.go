package locks_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/tracetext"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
)

// A lock function whose recorded result is not 0 did not take the lock.
func TestResults(t *testing.T) {
	t.Parallel()
	result := func(value uint64) []byte {
		return tracewrite.AppendMetadata(nil, reader.MetadataResult, binary.LittleEndian.AppendUint64(nil, value))
	}
	b, err := tracetext.Parse(fmt.Sprintf(`xray fdr version=5
thread 1 pid=7 tsc=100
enter 1 +0
enter-arg 10 +10
arg 16
custom %q +30
exit 10 +0
enter-arg 10 +10
arg 16
custom %q +20
exit 10 +0
enter-arg 11 +50
arg 16
exit 11 +0
exit 1 +10
`, result(110), result(0)))
	if err != nil {
		t.Fatal(err)
	}
	want := "0 16: 1 waits 20, 0 contended, 1 holds 50\n"
	if got := summary(analyze(t, open(t, b), locks.Options{})); len(got) < len(want) || got[:len(want)] != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

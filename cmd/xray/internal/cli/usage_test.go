package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShortenFlags(t *testing.T) {
	const text = `Run it with --quiet.

Flags:
  -h, --help[=true|false]         help for run
      --libcalls LIST[="locks"]   also record calls
  -q, --quiet[=true|false]        print only errors
      --stats[=true|false]        show sizes

Global Flags:
      --strict[=true|false]   fail on losses
`
	const want = `Run it with --quiet.

Flags:
  -h, --help              help for run
      --libcalls[=LIST]   also record calls
  -q, --quiet             print only errors
      --stats             show sizes

Global Flags:
      --strict   fail on losses
`
	if diff := cmp.Diff(want, shortenFlags(text)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

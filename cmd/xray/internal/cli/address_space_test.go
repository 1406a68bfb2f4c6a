package cli

import (
	"math"
	"strings"
	"testing"
)

// A limit that is too low for Go's runtime is named before the runtime ends the program.
func TestAddressWarning(t *testing.T) {
	t.Parallel()
	if got := addressWarning(1 << 30); !strings.Contains(got, "limited to 1.1 GB (ulimit -v)") {
		t.Errorf("got %q", got)
	}
	if got := addressWarning(math.MaxUint64); got != "" {
		t.Errorf("without a limit: %q", got)
	}
}

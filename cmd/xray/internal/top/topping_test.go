package top

import (
	"strings"
	"testing"

	"github.com/xray-tools/xray/cmd/xray/internal/tui"
	"github.com/xray-tools/xray/recorder/client"
)

// The title and the notes say whether a cost is an estimate or a lower bound.
func TestTopCost(t *testing.T) {
	t.Parallel()
	shown := &Topping{process: new(client.Process)}
	for _, c := range []struct {
		atLeast     bool
		title, note string
	}{
		{false, "recording ~3.1% CPU", "adds about 400.0% to"},
		{true, "recording >3.1% CPU", "adds more than 400.0% to"},
	} {
		i := &interval{Part: true, Cost: 0.031, Slower: 4, AtLeast: c.atLeast}
		if got := shown.title(new(tui.Data), i); !strings.HasSuffix(got, c.title) {
			t.Errorf("got %q, want %q", got, c.title)
		}
		if got := shown.notes(new(tui.Data), i); len(got) != 1 || !strings.Contains(got[0], c.note) {
			t.Errorf("got %q, want %q", got, c.note)
		}
	}
}

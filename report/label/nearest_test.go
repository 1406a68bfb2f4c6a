package label

import (
	"slices"
	"testing"
)

func TestNearest(t *testing.T) {
	names := map[string]bool{}
	for _, n := range []string{"kv::handle", "kv::Handler::handle", "kv::Queue::pop", "main", "handleRequest"} {
		names[n] = true
	}
	for expression, want := range map[string][]string{
		"^kv::handel":    {"kv::handle"},
		"HandleReqest$":  {"handleRequest"},
		"kv::Queue::pup": {"kv::Queue::pop"},
		"zzz":            nil,
		"^.*$":           nil,
	} {
		if got := Nearest(expression, names); len(got) < len(want) || !slices.Equal(got[:len(want)], want) || want == nil && len(got) > 0 {
			t.Errorf("%s: got %q", expression, got)
		}
	}
}

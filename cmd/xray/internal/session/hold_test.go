package session

import (
	"strings"
	"testing"
)

// The limit for tables grows by the calls that the user asked for, unless there is none. If the machine has less memory,
// that is an error at once.
func TestHold(t *testing.T) {
	for limit, want := range map[int64]int64{1000: 1640, 0: 0} {
		s := &Session{TableMemory: limit}
		if err := s.Hold(10, 64, ""); err != nil || s.TableMemory != want {
			t.Errorf("limit %d: got %d, %v, want %d", limit, s.TableMemory, err, want)
		}
	}
	if available() == 0 {
		t.Skip("the memory of this machine is unknown")
	}
	s := &Session{TableMemory: 1000}
	if err := s.Hold(1<<50, 64, "keep fewer"); err == nil || !strings.Contains(err.Error(), "of memory, and ") || !strings.Contains(err.Error(), ": keep fewer, or") || s.TableMemory != 1000 {
		t.Errorf("got %v and limit %d", err, s.TableMemory)
	}
}

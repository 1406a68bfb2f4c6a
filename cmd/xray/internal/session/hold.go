package session

import (
	"bytes"
	"fmt"
	"os"

	"github.com/xray-tools/xray/report/label"
)

// Hold raises TableMemory by what the calls that the user asked for take, in bytes for each. It fails if they need more
// memory than the machine has available. advice says what to do then.
func (s *Session) Hold(calls uint64, perCall int64, advice string) error {
	need := calls * uint64(perCall)
	if free := available(); free > 0 && need > free {
		return fmt.Errorf("%s need about %s of memory, and %s are available: %s, or select part of the trace",
			label.Count(calls, "call", "calls"), label.Bytes(need), label.Bytes(free), advice)
	}
	if s.TableMemory > 0 {
		s.TableMemory += int64(need)
	}
	return nil
}

// available returns the number of bytes of memory that programs can use, or 0 if it is unknown.
func available() uint64 {
	text, _ := os.ReadFile("/proc/meminfo")
	_, after, _ := bytes.Cut(text, []byte("MemAvailable:"))
	var kb uint64
	if n, _ := fmt.Sscan(string(after), &kb); n == 0 {
		return 0
	}
	return kb << 10
}

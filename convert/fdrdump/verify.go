package fdrdump

import (
	"fmt"

	"github.com/xray-tools/xray/reader"
)

// Verifier checks the order of the records in an FDR block with the rules of LLVM's
// BlockVerifier, which are the same for all versions. The zero value expects the first record
// of a block. Use a new one for each block.
type Verifier struct {
	last    reader.RecordKind
	started bool
}

// sets of record kinds, as bits
type kinds uint16

func set(ks ...reader.RecordKind) kinds {
	var s kinds
	for _, k := range ks {
		s |= 1 << k
	}
	return s
}

func (s kinds) has(k reader.RecordKind) bool { return k <= reader.Function && s&(1<<k) != 0 }

var (
	first = set(reader.BufferExtents, reader.NewBuffer)
	body  = set(reader.NewCPUID, reader.TSCWrap, reader.CustomEvent, reader.TypedEvent, reader.Function, reader.EndOfBuffer)

	allowed = [...]kinds{
		reader.BufferExtents: set(reader.NewBuffer),
		reader.NewBuffer:     set(reader.WallClock),
		reader.WallClock:     set(reader.PID, reader.NewCPUID),
		reader.PID:           set(reader.NewCPUID),
		reader.NewCPUID:      body,
		reader.TSCWrap:       body,
		reader.CustomEvent:   body,
		reader.TypedEvent:    body,
		reader.Function:      body | set(reader.CallArgument),
		reader.CallArgument:  body | set(reader.CallArgument),
	}

	terminal = body | set(reader.CallArgument)
)

// stateName returns LLVM's name of the state after a record.
func stateName(k reader.RecordKind) string {
	switch k {
	case reader.WallClock:
		return "WallClockTime"
	case reader.CallArgument:
		return "CallArg"
	case reader.PID:
		return "PIDEntry"
	}
	return k.String()
}

// Record checks the next record of the block. kind must be a kind of FDR logs. The error has
// LLVM's wording. The verifier continues from the record in any case.
func (v *Verifier) Record(kind reader.RecordKind) error {
	// LLVM ignores what follows the end of a full buffer.
	if v.started && v.last == reader.EndOfBuffer && kind != reader.NewBuffer {
		return nil
	}
	ok := first.has(kind)
	from := "Unknown"
	if v.started && v.last != reader.EndOfBuffer {
		ok = allowed[v.last].has(kind)
		from = stateName(v.last)
	}
	v.started, v.last = true, kind
	if !ok {
		return fmt.Errorf("BlockVerifier: Invalid transition from %s to %s.", from, stateName(kind)) // LLVM's words
	}
	return nil
}

// End checks whether the block may end here.
func (v *Verifier) End() error {
	state := "Unknown"
	if v.started {
		if terminal.has(v.last) {
			return nil
		}
		state = stateName(v.last)
	}
	return fmt.Errorf("BlockVerifier: Invalid terminal condition %s, malformed block.", state) // LLVM's words
}

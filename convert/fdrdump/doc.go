// Package fdrdump prints the records of a trace one after the other.
//
// [LLVM] and [LLVMVerify] print the form of `llvm-xray fdr-dump`. [Annotate] prints the
// offset, bytes and meaning of each record, with the thread, CPU and time that follow from
// the records before it, and shows damage where it is. [Verifier] checks the order of the
// records in a block.
//
// The package streams from [reader.Trace.Records]. Its output cannot be turned back into a
// trace: see package tracetext for that.
package fdrdump

import (
	"bytes"
	"fmt"

	"github.com/xray-tools/xray/reader"
)

// harmless reports whether bytes without a record are no loss: padding, and the rest of a
// version 1 buffer after its last record. last is the kind of the previous record.
func harmless(r *reader.Record, last reader.RecordKind) bool {
	return last == reader.EndOfBuffer || isZero(r.Data)
}

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// atOffset adds an offset to an error.
func atOffset(offset int64, err error) error { return fmt.Errorf("offset %#x: %w", offset, err) }

// Package dump prints the records of a trace, one after the other and
// uninterpreted, for people who look at the file itself.
//
// [LLVM] and [LLVMVerify] print what `llvm-xray fdr-dump` does. [Annotate] is
// our own form: offset, bytes and meaning of each record, with the thread, CPU
// and time that it has by the records before it, and damage where it is.
// [Verifier] checks the order of the records of a block.
//
// All of it streams from [reader.Trace.Records]. The package stands apart from
// package tracetext, which turns a file into text that can be turned back: a
// dump leaves out what has no meaning and adds what follows from the context.
package dump

import (
	"bytes"
	"fmt"

	"github.com/xray-tools/xray/reader"
)

// harmless tells bytes that are no record, but lack nothing: padding, and what
// is left of a version 1 buffer behind its last record. last is the kind of the
// record before.
func harmless(r *reader.Record, last reader.RecordKind) bool {
	return last == reader.EndOfBuffer || isZero(r.Data)
}

func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// atOffset says where an error is.
func atOffset(offset int64, err error) error { return fmt.Errorf("offset %#x: %w", offset, err) }

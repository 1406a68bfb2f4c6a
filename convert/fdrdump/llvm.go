package fdrdump

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/xray-tools/xray/reader"
)

// errNotFDR is returned for traces that llvm-xray fdr-dump cannot print.
var errNotFDR = errors.New("not a flight data recorder log")

// LLVM prints the records of an FDR log in the form of `llvm-xray fdr-dump`.
//
// llvm-xray stops at damage. LLVM continues after it, and returns the first damage as an error
// at the end. Padding and the rest of a version 1 buffer are not errors.
func LLVM(w io.Writer, h *reader.Header, records iter.Seq2[reader.Record, error]) error {
	return llvm(w, h, records, func(line []byte, r *reader.Record) ([]byte, error) {
		return appendLLVM(line, h, r), nil
	})
}

// LLVMVerify prints an FDR log in the form of `llvm-xray fdr-dump --verify`. It stops at the
// first record that [Verifier] rejects. Blocks are in the order of the file. In llvm-xray,
// blocks of different threads may be in another order. It handles damage as [LLVM] does.
func LLVMVerify(w io.Writer, h *reader.Header, records iter.Seq2[reader.Record, error]) error {
	var v Verifier
	p := blockPrinter{header: h}
	return llvm(w, h, records, func(line []byte, r *reader.Record) ([]byte, error) {
		switch r.Kind {
		case reader.BufferExtents:
			return line, nil
		case reader.NewBuffer:
			v = Verifier{}
		}
		if err := v.Record(r.Kind); err != nil {
			return line, err
		}
		return p.append(line, r), nil
	})
}

// llvm prints each record with appendRecord, and handles damage.
func llvm(w io.Writer, h *reader.Header, records iter.Seq2[reader.Record, error],
	appendRecord func([]byte, *reader.Record) ([]byte, error)) error {
	if h.Type != reader.FDR {
		return fmt.Errorf("%w, but a %v one", errNotFDR, h.Type)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	var damage error
	var line []byte
	var last reader.RecordKind
	var r reader.Record // declared once because it escapes
	for next, err := range records {
		r = next
		if err != nil {
			if r.Kind != reader.Damage { // the file could not be read
				return errors.Join(out.Flush(), err)
			}
			if damage == nil && !harmless(&r, last) {
				damage = atOffset(r.Offset, err)
			}
			continue
		}
		last = r.Kind
		if line, err = appendRecord(line[:0], &r); err != nil {
			return errors.Join(out.Flush(), err)
		}
		if _, err := out.Write(line); err != nil {
			return err
		}
	}
	return errors.Join(out.Flush(), damage)
}

// appendLLVM appends the line of a record. It does not escape payloads.
func appendLLVM(b []byte, h *reader.Header, r *reader.Record) []byte {
	switch r.Kind {
	case reader.BufferExtents:
		return fmt.Appendf(b, "<Buffer: size = %d bytes>\n", r.Value)
	case reader.NewBuffer:
		return fmt.Appendf(b, "<Thread ID: %d>\n", r.Thread)
	case reader.WallClock:
		return fmt.Appendf(b, "<Wall Time: seconds = %d.%06d>\n", r.Seconds, r.Micros)
	case reader.PID:
		return fmt.Appendf(b, "<PID: %d>\n", r.Process)
	case reader.NewCPUID:
		return fmt.Appendf(b, "<CPU: id = %d, tsc = %d>\n", r.CPU, r.TSC)
	case reader.TSCWrap:
		return fmt.Appendf(b, "<TSC Wrap: base = %d>\n", r.TSC)
	case reader.CallArgument:
		return fmt.Appendf(b, "<Call Argument: data = %d (hex = %#x)>\n", r.Value, r.Value)
	case reader.EndOfBuffer:
		return append(b, "<End of Buffer>\n"...)
	case reader.CustomEvent:
		if h.Version >= 5 {
			return fmt.Appendf(b, "<Custom Event: delta = +%d, size = %d, data = '%s'>\n", r.Delta, len(r.Data), r.Data)
		}
		return fmt.Appendf(b, "<Custom Event: tsc = %d, cpu = %d, size = %d, data = '%s'>\n", r.TSC, r.CPU, len(r.Data), r.Data)
	case reader.TypedEvent: // without a closing bracket
		return fmt.Appendf(b, "<Typed Event: delta = +%d, type = %d, size = %d, data = '%s'\n", r.Delta, r.Type, len(r.Data), r.Data)
	}
	// Most records are functions. fmt would take half of the time.
	b = append(append(b, "<Function "...), llvmKinds[r.FuncKind]...)
	b = strconv.AppendInt(append(b, ": #"...), int64(r.Func), 10)
	b = strconv.AppendInt(append(b, " delta = +"...), r.Delta, 10)
	return append(b, ">\n"...)
}

var llvmKinds = [...]string{
	reader.Enter:    "Enter",
	reader.Exit:     "Exit",
	reader.TailExit: "Tail Exit",
	reader.EnterArg: "Enter With Arg",
}

// blockPrinter adds the structure of blocks to the lines.
type blockPrinter struct {
	header *reader.Header
	last   reader.RecordKind // as far as the form depends on it
}

func (p *blockPrinter) append(b []byte, r *reader.Record) []byte {
	last := p.last
	p.last = r.Kind
	switch r.Kind {
	case reader.NewBuffer:
		b = append(b, "\n[New Block]\nPreamble: \n"...)
	case reader.WallClock, reader.PID:
		p.last = reader.NewBuffer // all of it is the preamble
	case reader.NewCPUID:
		switch last {
		case reader.NewBuffer:
			b = append(b, "\nBody:\n"...)
		case reader.Function:
			b = append(b, "\nMetadata: "...)
		}
		b = append(b, ' ')
	case reader.TSCWrap:
		if last == reader.Function {
			b = append(b, "\nMetadata:"...)
		}
		b = append(b, ' ')
		p.last = reader.NewCPUID
	case reader.Function:
		if last == reader.NewCPUID {
			b = append(b, '\n')
		}
		b = append(b, "-  "...)
	case reader.CallArgument:
		b = append(b, " : "...)
	case reader.CustomEvent, reader.TypedEvent:
		if last == reader.NewCPUID {
			b = append(b, '\n')
		}
		b = append(b, "*  "...)
	case reader.EndOfBuffer:
		b = append(b, " *** "...)
	}
	return appendLLVM(b, p.header, r)
}

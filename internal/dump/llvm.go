package dump

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/xray-tools/xray/reader"
)

// ErrNotFDR is returned for traces of a type that llvm-xray's form has no words
// for.
var ErrNotFDR = errors.New("not a flight data recorder log")

// LLVM prints the records of an FDR log in the form of `llvm-xray fdr-dump`.
//
// At bytes that are no record llvm-xray stops; here the records behind them are
// printed too, and the first such place is the error in the end. Padding, and
// what is left of a version 1 buffer, is no error.
func LLVM(w io.Writer, h *reader.Header, records iter.Seq2[reader.Record, error]) error {
	return llvm(w, h, records, func(line []byte, r *reader.Record) ([]byte, error) {
		return appendLLVM(line, h, r), nil
	})
}

// LLVMVerify prints an FDR log in the form of `llvm-xray fdr-dump --verify`. It
// stops at the first record that the [Verifier] does not allow. The blocks come
// in the order of the file; those of different threads do so in llvm-xray only
// by chance. Damage is treated as by [LLVM].
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

// llvm prints each record with appendRecord, and deals with what is no record.
func llvm(w io.Writer, h *reader.Header, records iter.Seq2[reader.Record, error],
	appendRecord func([]byte, *reader.Record) ([]byte, error)) error {
	if h.Type != reader.FDR {
		return fmt.Errorf("%w, but a %v one", ErrNotFDR, h.Type)
	}
	out := bufio.NewWriterSize(w, 1<<16)
	var damage error
	var line []byte
	var last reader.RecordKind
	var r reader.Record // declared once, as it escapes
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

// appendLLVM appends the line of a record. Payloads are printed as they are.
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
	// Most records come here; fmt would take half of the time.
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

// blockPrinter adds to the lines what shows the structure of a block.
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

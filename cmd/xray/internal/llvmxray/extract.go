package llvmxray

import (
	"io"

	"github.com/xray-tools/xray/cmd/xray/internal/llvmxray/llvmargs"
	"github.com/xray-tools/xray/convert/fdrdump"
	"github.com/xray-tools/xray/symbolize"
)

func (t *tool) extract() (*llvmargs.Command, func([]string) error) {
	var (
		output  = "-"
		symbols bool
		names   demangleOptions
	)
	c := &llvmargs.Command{Name: "extract", Short: "Extract instrumentation maps", Operands: "<input file>", Min: 1, Max: 1}
	names.add(c, "don't demangle symbols")
	c.String(&output, "output", "output file", outputHelp, "o")
	c.Bool(&symbols, "symbolize", "symbolize functions", "s")
	return c, func(args []string) error {
		table, err := symbolize.Load(args[0], names.options())
		if err != nil {
			return stages(err, "Cannot extract instrumentation map from '%s'.", args[0])
		}
		defer table.Close()
		return t.writeText(output, func(w io.Writer) error {
			if !symbols {
				return symbolize.WriteYAML(w, table.Map(), nil)
			}
			return symbolize.WriteYAML(w, table.Map(), table)
		})
	}
}

func (t *tool) fdrDump() (*llvmargs.Command, func([]string) error) {
	var verify bool
	c := &llvmargs.Command{Name: "fdr-dump", Short: "FDR Trace Dump", Operands: "<xray fdr mode log>", Min: 1, Max: 1}
	c.Bool(&verify, "verify", "verify structure of the log")
	return c, func(args []string) error {
		s, err := t.open(nil, args[0])
		if err != nil {
			return systemError{err}
		}
		defer s.Close()
		header := s.Trace.Header(0)
		write := fdrdump.LLVM
		if verify {
			write = fdrdump.LLVMVerify
		}
		return write(t.Stdout, &header, s.Trace.Records(0))
	}
}

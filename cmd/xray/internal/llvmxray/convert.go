package llvmxray

import (
	"io"

	"github.com/xray-tools/xray/cmd/xray/internal/llvmxray/llvmargs"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/convert"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

func (t *tool) convert() (*llvmargs.Command, func([]string) error) {
	var (
		instrMap, output = "", "-"
		format           = "raw"
		sort             = true
		symbols          bool
		names            demangleOptions
	)
	c := &llvmargs.Command{Name: "convert", Short: "Trace Format Conversion", Operands: "<xray log file>", Min: 1, Max: 1}
	names.add(c, "determines whether to demangle function name when symbolizing function ids from the input log")
	c.String(&instrMap, "instr_map", mapValue, mapHelp, "m")
	c.String(&output, "output", "output file", outputHelp, "o")
	c.Choice(&format, "output-format", "output format", []llvmargs.Choice{
		{Name: "raw", Help: "output in binary"},
		{Name: "yaml", Help: "output in yaml"},
		{Name: "trace_event", Help: "Output in chrome's trace event format. May be visualized with the Catapult trace viewer."},
	}, "f")
	c.Bool(&sort, "sort", "determines whether to sort input log records by timestamp", "s")
	c.Bool(&symbols, "symbolize", "symbolize function ids from the input log", "y")
	return c, func(args []string) error {
		table, closeMap, err := loadMap(instrMap, names.options())
		if err != nil {
			return stages(err, "Cannot open instrumentation map '%s'", instrMap)
		}
		defer closeMap()
		if !symbols {
			table = nil
		} else if table == nil {
			table = symbolize.Objects{} // knows no function: all are #id
		}
		return t.writeData(output, func(w io.Writer) error {
			s, err := t.open(table, args[0])
			if err != nil {
				return stages(err, "Failed loading input file '%s'.", args[0])
			}
			defer s.Close()
			opts := convert.Options{Header: s.Trace.Header(0), Names: table, Files: s.Trace.Files()}
			var out convert.RecordWriter
			switch format {
			case "yaml":
				out = convert.NewYAML(w, opts)
			case "trace_event":
				out = convert.NewTraceEvents(w, opts)
			default:
				out = tracewrite.NewRaw(w, opts.Header)
			}
			order := recordOrder(s)
			if sort {
				order = reader.TimeOrder
			}
			err = s.WriteRecords(out, session.Scope{}, order, true)
			warn(s)
			return err
		})
	}
}

// demangleOptions are --demangle and --no-demangle. The last one wins, whatever its value.
type demangleOptions struct{ keep bool }

func (d *demangleOptions) add(c *llvmargs.Command, help string) {
	c.Func("demangle", "demangle symbols (default)", func(bool) { d.keep = false })
	c.Func("no-demangle", help, func(bool) { d.keep = true })
}

func (d *demangleOptions) options() symbolize.Options {
	if d.keep {
		return symbolize.Options{Style: symbolize.Mangled}
	}
	return symbolize.Options{}
}

package llvmxray

import (
	"fmt"
	"io"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/cmd/xray/internal/llvmxray/llvmargs"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

func (t *tool) account() (*llvmargs.Command, func([]string) error) {
	var (
		instrMap, output             = "", "-"
		format, sort, order          = "text", "funcid", "asc"
		keepGoing, deduce, recursive bool
		top                          = -1
	)
	c := &llvmargs.Command{Name: "account", Short: "Function call accounting", Operands: "<xray log file>", Min: 1, Max: 1}
	c.Bool(&deduce, "deduce-sibling-calls", deduceHelp, "d")
	c.Choice(&format, "format", "output format", []llvmargs.Choice{
		{Name: "text", Help: "report stats in text"},
		{Name: "csv", Help: "report stats in csv"},
	}, "f")
	c.String(&instrMap, "instr_map", mapValue, mapHelp, "m")
	c.Bool(&keepGoing, "keep-going", keepGoingHelp, "k")
	c.String(&output, "output", "output file", outputHelp, "o")
	c.Bool(&recursive, "recursive-calls-only", "Only count the calls that are recursive")
	sorts := append([]llvmargs.Choice{{Name: "funcid", Help: "function id"}}, statistics...)
	c.Choice(&sort, "sort", "sort output by this field", append(sorts, llvmargs.Choice{Name: "func", Help: "function names"}), "s")
	c.Choice(&order, "sortorder", "sort ordering", []llvmargs.Choice{
		{Name: "asc", Help: "ascending"},
		{Name: "dsc", Help: "descending"},
	}, "r")
	c.Int(&top, "top", "N", "only show the top N results", "p")
	return c, func(args []string) error {
		column, err := account.ParseColumn(sort)
		if err != nil {
			return err
		}
		names, closeMap, err := loadMap(instrMap, symbolize.Options{})
		if err != nil {
			return stages(err, "Cannot open instrumentation map '%s'", instrMap)
		}
		defer closeMap()
		return t.writeText(output, func(w io.Writer) error {
			s, err := t.open(names, args[0])
			if err != nil {
				return stages(err, "Failed loading input file '%s'", args[0])
			}
			defer s.Close()
			sink, err := analyze(s, calls.Options{Nested: true, Policy: policy(deduce)}, recordOrder(s), keepGoing, func(u *calls.Unmatched) error {
				fmt.Fprint(t.Stderr, badRecord(names, u))
				return fmt.Errorf("Failed accounting function calls in file '%s'.", args[0])
			}, func() *account.Analysis { return account.New(account.Options{Exact: true, RecursiveOnly: recursive}) })
			if err != nil {
				return err
			}
			report := sink.Report(s.Clock.Frequency)
			report.Ended()
			report.Sort(column, order == "dsc", names)
			report.Top(top)
			if format == "csv" {
				return report.WriteLLVMCSV(w, names)
			}
			return report.WriteLLVMText(w, names)
		})
	}
}

// badRecord returns the message of llvm-xray account for an exit that matches no entry.
func badRecord(names symbolize.Names, u *calls.Unmatched) string {
	kind := "exit"
	if u.Event.Kind == reader.TailExit {
		kind = "tail-exit"
	}
	stack := openStack(names, u, "  ")
	if len(u.Open()) == 0 {
		stack += "  (empty stack)\n"
	}
	return fmt.Sprintf("Error processing record: {type: 0; cpu: %d; record-type: %s; function-id: %d; tsc: %d; thread-id: %d; process-id: %d}}\n%s",
		u.Event.CPU, kind, u.Event.Func, u.Event.TSC, u.Thread.Thread, u.Thread.Process, stack)
}

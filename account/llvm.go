package account

import (
	"bufio"
	"fmt"
	"io"
	"regexp"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// llvmStats returns the six numbers of a function in the order of llvm-xray. They are in
// seconds, or in ticks if the frequency is unknown.
//
// llvm-xray converts and prints in double precision. So does this function, to round the last
// decimal in the same way.
func (r *Report) llvmStats(row *Row) [6]float64 {
	s := [6]float64{
		float64(row.Min), float64(row.P50), float64(row.P90), float64(row.P99), float64(row.Max), row.Sum.Float64(),
	}
	if r.Clock.Known() {
		for i := range s {
			s[i] /= float64(r.Clock.Frequency)
		}
	}
	return s
}

// WriteLLVMText writes the text output of llvm-xray. Names may be nil.
func (r *Report) WriteLLVMText(w io.Writer, names symbolize.Names) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "Functions with latencies: %d\n", r.Functions)
	fmt.Fprintf(out, "%9s %10s [%9s, %9s, %9s, %9s, %9s] %9s  %-12s\n",
		"funcid", "count", "min", "med", "90p", "99p", "max", "sum", "function")
	for i := range r.Rows {
		row := &r.Rows[i]
		s := r.llvmStats(row)
		fmt.Fprintf(out, "%9d %10d [%9.6f, %9.6f, %9.6f, %9.6f, %9.6f] %9.6f  %s: %s\n",
			row.Func, row.Count, s[0], s[1], s[2], s[3], s[4], s[5],
			llvmLocation(names, row.Func), symbolize.Label(names, row.Func))
	}
	return out.Flush()
}

// llvmLocation returns the location of a function, with llvm-xray's words for unknown ones.
func llvmLocation(names symbolize.Names, id reader.FuncID) string {
	if location := symbolize.LocationWithColumn(names, id); location != "" {
		return location
	}
	if names != nil {
		if _, ok := names.Func(id); ok {
			return "<invalid>:0:0"
		}
	}
	return "(unknown)"
}

// nameless matches the labels of functions without a symbol.
var nameless = regexp.MustCompile(`^@\([0-9a-f]+\)$`)

// llvmName returns the label in the form that scripts for llvm-xray expect; "" for no function.
func llvmName(label string) string {
	if nameless.MatchString(label) {
		return label
	}
	return texttab.CSVText(label)
}

// WriteLLVMCSV writes the CSV output of llvm-xray. Unlike llvm-xray, it doubles quotes
// within strings, and quotes names that a spreadsheet would take for a formula.
func (r *Report) WriteLLVMCSV(w io.Writer, names symbolize.Names) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "funcid,count,min,median,90%ile,99%ile,max,sum,debug,function")
	for i := range r.Rows {
		row := &r.Rows[i]
		s := r.llvmStats(row)
		fmt.Fprintf(out, "%d,%d,%e,%e,%e,%e,%e,%e,%s,%s\n",
			row.Func, row.Count, s[0], s[1], s[2], s[3], s[4], s[5],
			texttab.QuoteCSV(texttab.CSVText(llvmLocation(names, row.Func))), texttab.QuoteCSV(llvmName(symbolize.Label(names, row.Func))))
	}
	return out.Flush()
}

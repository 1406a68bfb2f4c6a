package report_test

import (
	"os"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
)

// A report declares its columns once. Each format follows from them.
func Example() {
	type row struct {
		fn    reader.FuncID
		count uint64
		self  uint64 // ticks
	}
	doc := report.Doc{Kind: "hot", Clock: reader.Clock{Frequency: 1_000_000_000}, Body: []report.Node{
		report.Paragraph("The functions with the most self time:"),
		report.Table("functions", []row{{fn: 1, count: 20, self: 1_500}, {fn: 2, count: 4, self: 800}},
			report.Count("count", func(r *row) uint64 { return r.count }),
			report.Time("self", func(r *row) uint64 { return r.self }),
			report.Function("function", func(r *row) reader.FuncID { return r.fn })),
	}}
	doc.Write(os.Stdout, report.Style{Format: report.Text})
	doc.Write(os.Stdout, report.Style{Format: report.CSV})
	// Output:
	// The functions with the most self time:
	//
	// count     self  function
	//    20  1.500us  #1
	//     4    800ns  #2
	// count,self_ns,function,function_id
	// 20,1500,#1,1
	// 4,800,#2,2
}

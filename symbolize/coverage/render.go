package coverage

import (
	"fmt"

	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
)

// Body describes the report. top is the number of functions that people see; 0 means all.
func (r *Report) Body(top int) []report.Node {
	body := []report.Node{
		report.Paragraph(r.head()),
		report.Facts(r,
			report.Count("function_count", func(r *Report) uint64 { return r.Functions }),
			report.Count("always", func(r *Report) uint64 { return r.Always }),
			report.Count("sleds", func(r *Report) uint64 { return r.Sleds }),
			report.Bytes("sled", func(r *Report) uint64 { return r.CodeBytes }),
			report.Bytes("table", func(r *Report) uint64 { return r.TableBytes }),
			report.Bytes("file", func(r *Report) uint64 { return r.FileBytes }),
			report.Count("threshold", func(r *Report) uint64 { return r.Threshold }),
		).Hidden(),
		report.Table("reasons", r.reasons(),
			report.Count("function_count", func(x *reason) uint64 { return x.count }).Titled("functions"),
			report.String("reason", func(x *reason) string { return x.reason.String() }).ForPrograms(),
			report.String("why", func(x *reason) string { return x.words }).Titled("have no sleds because"),
		),
	}
	if r.Choices != nil {
		body = append(body, report.Table("thresholds", r.Choices,
			report.Count("threshold", func(c *Choice) uint64 { return c.Threshold }),
			report.Count("function_count", func(c *Choice) uint64 { return c.Functions }).Titled("functions"),
			report.Bytes("sled", func(c *Choice) uint64 { return c.Bytes }).Titled("sleds and tables"),
		).Titled("With another -fxray-instruction-threshold"),
			report.Paragraph("Short functions are usually called most often and say least. A threshold of 20 to 50 leaves most of them without sleds. "+
				"To see what recording the functions of a program costs, record it once, and run xray exclude on the trace."))
	}
	without := report.Table("without", r.Without,
		report.String("reason", func(f *Function) string { return f.Reason.String() }),
		report.Count("instructions", func(f *Function) uint64 { return f.Instructions }).Missing(func(f *Function) bool { return f.Instructions == 0 }),
		report.Count("missing", func(f *Function) uint64 { return f.Missing }).Missing(func(f *Function) bool { return f.Reason != Short }).Titled("too few by"),
		report.Flag("loop", func(f *Function) bool { return f.Loop }).ForPrograms(),
		report.Bytes("code", func(f *Function) uint64 { return f.Bytes }).ForPrograms(),
		report.String("name", func(f *Function) string { return f.Name }).Titled("function"),
		report.String("unit", func(f *Function) string { return f.Unit }).ForPrograms(),
	)
	return append(body, without.Titled("Functions without sleds").Top(top))
}

type reason struct {
	reason Reason
	count  uint64
	words  string
}

func (r *Report) reasons() (list []reason) {
	for i, n := range r.Counts {
		if n == 0 {
			continue
		}
		list = append(list, reason{Reason(i), n, [...]string{
			Short:   "they are short and have no loop: use a smaller -fxray-instruction-threshold",
			Never:   "an attribute (xray_never_instrument) or a compiler list excludes them",
			Plain:   "no function of their compilation unit has sleds: it was compiled without -fxray-instrument, or all its functions are short",
			Unknown: "unknown: there is no debug information (-g)",
			Runtime: "they belong to LLVM's runtime, which the compiler links in",
			Inlined: "they were inlined everywhere",
		}[i]})
	}
	return list
}

func (r *Report) head() string {
	text := fmt.Sprintf("%s %s: %s. %s marked xray_always_instrument. Sleds take %s of code, and their tables %s, in a file of %s.",
		label.Count(r.Functions, "function has", "functions have"), label.Count(r.Sleds, "sled", "sleds"),
		percent(r.Functions, r.Functions+uint64(len(r.Without))-r.Counts[Inlined]-r.Counts[Runtime]), label.Count(r.Always, "function is", "functions are"),
		label.Bytes(r.CodeBytes), label.Bytes(r.TableBytes), label.Bytes(r.FileBytes))
	switch {
	case r.Likely > r.Threshold && r.Threshold > 0:
		text += fmt.Sprintf(" Functions without loops that have sleds have at least %s, so the threshold was probably %d.",
			label.Count(r.Threshold, "instruction", "instructions"), r.Likely)
	case r.Likely > 0 && r.Threshold == 0:
		text += fmt.Sprintf(" No function has sleds for its length, so the threshold was probably clang's default, %d instructions.", r.Likely)
	case r.Threshold > 0:
		text += fmt.Sprintf(" Functions without loops that have sleds have at least %s.", label.Count(r.Threshold, "instruction", "instructions"))
	}
	return text
}

func percent(part, of uint64) string {
	if of == 0 {
		return "all functions"
	}
	return fmt.Sprintf("%.0f%% of the functions that have code", 100*float64(part)/float64(of))
}

package allocations

import (
	"fmt"
	"slices"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
)

// View selects what people see of a report.
type View struct {
	Top int // rows of each table; 0 is all
}

// Body describes the report: a table of all call paths, and for people the paths with the
// most live, short-lived and copied bytes.
func (r *Report) Body(v View) []report.Node {
	body := []report.Node{
		report.Paragraph(r.head()),
		report.Facts(r,
			report.Count("blocks", func(r *Report) uint64 { return r.Total.Blocks }),
			report.Bytes("allocated", func(r *Report) uint64 { return r.Total.Bytes }),
			report.Count("live_blocks", func(r *Report) uint64 { return r.Total.LiveBlocks }),
			report.Bytes("live", func(r *Report) uint64 { return r.Total.LiveBytes }),
			report.Bytes("peak", func(r *Report) uint64 { return r.Peak }),
			report.Moment("peak", func(r *Report) uint64 { return r.PeakAt }).Missing(func(r *Report) bool { return r.Peak == 0 }),
			report.Count("frees", func(r *Report) uint64 { return r.Frees }),
			report.Count("unknown_frees", func(r *Report) uint64 { return r.Unknown }),
			report.Time("total", func(r *Report) uint64 { return r.Total.Ticks + r.FreeTicks }),
		).Hidden(),
		r.table("paths", r.Paths).Top(v.Top),
	}
	for _, by := range []struct {
		title  string
		key    func(*Sums) uint64
		blocks func(*Sums) uint64
		words  string
	}{
		{"Live at the end", func(s *Sums) uint64 { return s.LiveBytes }, func(s *Sums) uint64 { return s.LiveBlocks }, "live"},
		{"Freed within " + r.Clock.Format(r.Short), func(s *Sums) uint64 { return s.ShortBytes }, func(s *Sums) uint64 { return s.ShortBlocks }, "short-lived"},
		{"Copied to grow", func(s *Sums) uint64 { return s.Copied }, func(s *Sums) uint64 { return s.Copies }, "copied"},
	} {
		list := slices.DeleteFunc(slices.Clone(r.Paths), func(p Path) bool { return by.blocks(&p.Sums) == 0 })
		r.sort(list, by.key)
		if len(list) == 0 {
			continue
		}
		body = append(body, report.People{report.Table("by", list,
			report.Bytes("bytes", func(p *Path) uint64 { return by.key(&p.Sums) }).Titled(by.words),
			report.Count("blocks", func(p *Path) uint64 { return by.blocks(&p.Sums) }),
			report.Function("function", func(p *Path) reader.FuncID { return p.Func }),
			report.Path("path", func(p *Path) []reader.FuncID { return p.Path }).Titled("by"),
		).Titled(by.title).Top(v.Top)})
	}
	body = append(body,
		copyTable("object_copies", r.Objects, true).Titled("Objects copied by constructors, assignments and clone").Top(v.Top),
		copyTable("memory_copies", r.Moved, false).Titled("Memory copied by the C library").Top(v.Top))
	if r.Unknown > 0 {
		body = append(body, report.Notes{label.Count(r.Unknown, "freed block was", "freed blocks were") +
			" allocated before the recording, in a parent process, or in a way that was not recorded."})
	}
	return body
}

func copyTable(key string, list []CopySums, allocate bool) *report.TableNode {
	return report.Table(key, list,
		report.Time("total", func(c *CopySums) uint64 { return c.Ticks }).Titled("took"),
		report.Time("max", func(c *CopySums) uint64 { return c.Longest }),
		report.Count("calls", func(c *CopySums) uint64 { return c.Calls }),
		report.Bytes("copied", func(c *CopySums) uint64 { return c.Bytes }),
		report.Bytes("allocated", func(c *CopySums) uint64 { return c.Allocated }).Optional().When(allocate),
		report.Function("function", func(c *CopySums) reader.FuncID { return c.Func }),
		report.Path("path", func(c *CopySums) []reader.FuncID { return c.Path }).Titled("by"),
	)
}

func (r *Report) head() string {
	switch {
	case r.Total.Blocks+r.Frees > 0:
	case len(r.Objects)+len(r.Moved) > 0:
		return "The trace has no calls of malloc or other allocators. To see them, record the program with xray record --libcalls=alloc."
	default:
		return "The trace has no calls of malloc or other allocators. Record the program with xray record --libcalls=alloc."
	}
	return fmt.Sprintf("%s of %s were allocated on %s. %s of %s were live at the end. At most %s were in use at once. Allocating took %s, and %s %s.",
		label.Count(r.Total.Blocks, "block", "blocks"), label.Bytes(r.Total.Bytes), label.Count(uint64(len(r.Paths)), "call path", "call paths"),
		label.Count(r.Total.LiveBlocks, "block", "blocks"), label.Bytes(r.Total.LiveBytes), label.Bytes(r.Peak),
		r.Clock.Format(r.Total.Ticks), label.Count(r.Frees, "free", "frees"), r.Clock.Format(r.FreeTicks))
}

func (r *Report) table(key string, list []Path) *report.TableNode {
	return report.Table(key, list,
		report.Bytes("allocated", func(p *Path) uint64 { return p.Bytes }),
		report.Share("share", func(p *Path) float64 {
			if r.Total.Bytes == 0 {
				return 0
			}
			return float64(p.Bytes) / float64(r.Total.Bytes)
		}),
		report.Count("blocks", func(p *Path) uint64 { return p.Blocks }),
		report.Bytes("largest", func(p *Path) uint64 { return p.Largest }).Optional(),
		report.Bytes("live", func(p *Path) uint64 { return p.LiveBytes }),
		report.Count("live_blocks", func(p *Path) uint64 { return p.LiveBlocks }).ForPrograms(),
		report.Bytes("short", func(p *Path) uint64 { return p.ShortBytes }).Titled("short-lived"),
		report.Count("short_blocks", func(p *Path) uint64 { return p.ShortBlocks }).ForPrograms(),
		report.Bytes("copied", func(p *Path) uint64 { return p.Copied }).Optional(),
		report.Count("copies", func(p *Path) uint64 { return p.Copies }).ForPrograms(),
		report.Count("failed", func(p *Path) uint64 { return p.Failed }).ForPrograms(),
		report.Time("total", func(p *Path) uint64 { return p.Ticks }).Titled("took").Optional(),
		report.Time("max", func(p *Path) uint64 { return p.Longest }).ForPrograms(),
		report.Function("function", func(p *Path) reader.FuncID { return p.Func }),
		report.Path("path", func(p *Path) []reader.FuncID { return p.Path }).Titled("by"),
	)
}

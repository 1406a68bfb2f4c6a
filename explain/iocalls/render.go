package iocalls

import (
	"fmt"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/report"
	"github.com/xray-tools/xray/report/label"
)

// View selects what people see of a report.
type View struct {
	Top int // rows of each table; 0 is all
}

// Body describes the report.
func (r *Report) Body(v View) []report.Node {
	return []report.Node{
		report.Paragraph(r.head()),
		report.Facts(r,
			report.Count("calls", func(r *Report) uint64 { return r.Total.Calls }),
			report.Count("failed", func(r *Report) uint64 { return r.Total.Failed }),
			report.Bytes("read", func(r *Report) uint64 { return r.Total.Read }),
			report.Bytes("written", func(r *Report) uint64 { return r.Total.Written }),
			report.Time("total", func(r *Report) uint64 { return r.Total.Ticks }),
			report.Time("waiting", func(r *Report) uint64 { return r.Wait.Ticks }),
		).Hidden(),
		report.Table("files", r.Files, append(columns(r, r.Total.Ticks, func(f *File) *Sums { return &f.Sums }),
			report.String("name", func(f *File) string { return f.Name }).Titled("file"))...).Top(v.Top),
		r.paths("paths", r.Paths, r.Total.Ticks).Titled("Call paths").Top(v.Top),
		r.paths("event_waits", r.Waits, r.Wait.Ticks).Titled("Waits for events and connections").Top(v.Top),
	}
}

func (r *Report) head() string {
	if r.Total.Calls+r.Total.Open+r.Wait.Calls+r.Wait.Open == 0 {
		return "The trace has no I/O calls of the C library. Record the program with xray record --libcalls."
	}
	blocked := ""
	if r.OffCPU {
		blocked = fmt.Sprintf(" (%s blocked, %s in the run queue)", r.Clock.Format(r.Total.Blocked), r.Clock.Format(r.Total.Queued))
	}
	return fmt.Sprintf("%s for %s took %s%s: %s read, %s written, %s failed. %s for events and connections took %s.",
		label.Count(r.Total.Calls+r.Total.Open, "call", "calls"), label.Count(uint64(len(r.Files)), "file or socket", "files and sockets"),
		r.Clock.Format(r.Total.Ticks), blocked, label.Bytes(r.Total.Read), label.Bytes(r.Total.Written), label.Grouped(r.Total.Failed),
		label.Count(r.Wait.Calls+r.Wait.Open, "wait", "waits"), r.Clock.Format(r.Wait.Ticks))
}

func columns[T any](r *Report, all uint64, of func(*T) *Sums) []report.Column[T] {
	about := func(t *T) bool { return of(t).Approximate }
	none := func(t *T) bool { return of(t).Calls == 0 }
	return []report.Column[T]{
		report.Time("total", func(t *T) uint64 { return of(t).Ticks }),
		report.Share("share", func(t *T) float64 {
			if all == 0 {
				return 0
			}
			return float64(of(t).Ticks) / float64(all)
		}),
		report.Time("blocked", func(t *T) uint64 { return of(t).Blocked }).When(r.OffCPU).Optional(),
		report.Time("queued", func(t *T) uint64 { return of(t).Queued }).When(r.OffCPU).Optional(),
		report.Count("calls", func(t *T) uint64 { return of(t).Calls }),
		report.Count("open", func(t *T) uint64 { return of(t).Open }).ForPrograms(),
		report.Count("failed", func(t *T) uint64 { return of(t).Failed }).Optional(),
		report.String("errors", func(t *T) string { return Text(of(t).Errors) }).ForPeople().Optional(),
		report.Rows("errors", func(t *T) *report.TableNode { return ErrorTable(of(t).Errors) }, nil),
		report.Bytes("read", func(t *T) uint64 { return of(t).Read }),
		report.Bytes("written", func(t *T) uint64 { return of(t).Written }),
		report.Time("p50", func(t *T) uint64 { return of(t).P50 }).Missing(none).About(about).Least(),
		report.Time("p99", func(t *T) uint64 { return of(t).P99 }).Missing(none).About(about).Optional(),
		report.Time("max", func(t *T) uint64 { return of(t).Longest }),
	}
}

func (r *Report) paths(key string, list []Path, all uint64) *report.TableNode {
	return report.Table(key, list, append(columns(r, all, func(p *Path) *Sums { return &p.Sums }),
		report.Function("function", func(p *Path) reader.FuncID { return p.Func }),
		report.String("name", func(p *Path) string { return p.File }).Titled("file"),
		report.Path("path", func(p *Path) []reader.FuncID { return p.Path }).Titled("by"))...)
}

// ErrorTable describes errors for programs.
func ErrorTable(list []Failure) *report.TableNode {
	return report.Table("errors", list,
		report.String("error", func(f *Failure) string { return f.Error }),
		report.Count("calls", func(f *Failure) uint64 { return f.Calls }))
}

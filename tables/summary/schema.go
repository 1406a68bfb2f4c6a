package summary

import "github.com/xray-tools/xray/tables/parquetfile"

// Version is the version of the schema. It grows when columns change their meaning; new
// columns do not change it.
const Version = 1

// metaKey is the key of the file's metadata, a JSON object of type fileMeta. Files that
// other programs write lack it.
const metaKey = "xray.summary"

// creator is the program that wrote a file, as the file states it.
const creator = "xray"

// fileMeta describes the file to this package. Other readers do not need it.
type fileMeta struct {
	Version int        `json:"version"`
	Groups  []fileRows `json:"groups"` // in the order of their rows
}

// fileRows are the rows of a group.
type fileRows struct {
	Key
	Rows int64 `json:"rows"`
}

// keyColumns are the columns of a Key, in its order.
var keyColumns = [5]string{"program", "build_id", "host", "labels", "unit"}

// nameColumns are the columns of a Function but for line.
var nameColumns = [4]string{"function", "symbol", "file", "object"}

// counterColumns are the columns of Sums.counters.
var counterColumns = [...]string{
	"calls", "time", "self_time", "open_calls", "open_time", "open_self_time", "nested_time",
	"inferred", "left_calls", "tail_exited", "continued", "on_cpu", "blocked", "queued",
	"untimed_calls", "pruned_calls", "pruned_time", "folded_calls", "folded_self_time",
}

// onCPU is the index of on_cpu in counterColumns; the following two are null with it.
const onCPU = 11

func isOffCPU(counter int) bool { return counter >= onCPU && counter < onCPU+3 }

// binColumns are the columns of a bin.
var binColumns = [4]string{"bin", "durations", "self_times", "coarse"}

// binsColumn is the list that they are in.
const binsColumn = "bins"

// columns is the schema, which docs/summaries.md explains.
func columns() []parquetfile.Column {
	var list []parquetfile.Column
	add := func(c parquetfile.Column, names ...string) {
		for _, c.Name = range names {
			list = append(list, c)
		}
	}
	text, short, long := parquetfile.Column{Kind: parquetfile.String}, parquetfile.Column{Kind: parquetfile.Int32}, parquetfile.Column{Kind: parquetfile.Int64}
	nullable := parquetfile.Column{Kind: parquetfile.Int64, Optional: true}
	add(text, keyColumns[:]...)
	add(text, "path")
	add(short, "depth")
	add(text, nameColumns[:3]...)
	add(short, "line")
	add(text, nameColumns[3])
	add(long, counterColumns[:3]...)
	add(nullable, "min", "max")
	add(nullable, counterColumns[onCPU:onCPU+3]...)
	add(long, counterColumns[3:onCPU]...)
	add(long, counterColumns[onCPU+3:]...)
	short.In, long.In = binsColumn, binsColumn
	add(short, binColumns[0])
	add(long, binColumns[1:]...)
	return list
}

package summary

// Version is the version of the schema. It grows when columns change their meaning; new
// columns do not change it.
const Version = 1

// Extension is the usual extension of summaries.
const Extension = ".parquet"

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

// row is a row of a file. Its tags are the schema, which docs/summaries.md explains.
type row struct {
	Program string `parquet:"program,dict"`
	BuildID string `parquet:"build_id,dict"`
	Host    string `parquet:"host,dict"`
	Labels  string `parquet:"labels,dict"`
	Unit    string `parquet:"unit,dict"`
	Path    string `parquet:"path,delta"`

	Depth    int32  `parquet:"depth"`
	Function string `parquet:"function,dict"`
	Symbol   string `parquet:"symbol,dict"`
	File     string `parquet:"file,dict"`
	Line     int32  `parquet:"line,dict"`
	Object   string `parquet:"object,dict"`

	Calls    int64  `parquet:"calls"`
	Time     int64  `parquet:"time"`
	SelfTime int64  `parquet:"self_time"`
	Min      *int64 `parquet:"min,optional"`
	Max      *int64 `parquet:"max,optional"`
	OnCPU    *int64 `parquet:"on_cpu,optional"`
	Blocked  *int64 `parquet:"blocked,optional"`
	Queued   *int64 `parquet:"queued,optional"`

	OpenCalls      int64 `parquet:"open_calls"`
	OpenTime       int64 `parquet:"open_time"`
	OpenSelfTime   int64 `parquet:"open_self_time"`
	NestedTime     int64 `parquet:"nested_time"`
	Inferred       int64 `parquet:"inferred"`
	Left           int64 `parquet:"left_calls"`
	TailExited     int64 `parquet:"tail_exited"`
	Continued      int64 `parquet:"continued"`
	Untimed        int64 `parquet:"untimed_calls"`
	PrunedCalls    int64 `parquet:"pruned_calls"`
	PrunedTime     int64 `parquet:"pruned_time"`
	FoldedCalls    int64 `parquet:"folded_calls"`
	FoldedSelfTime int64 `parquet:"folded_self_time"`

	Bins []bin `parquet:"bins,list"`
}

// bin is a bin of a row's histograms.
type bin struct {
	Bin       int32 `parquet:"bin"`
	Durations int64 `parquet:"durations"`
	SelfTimes int64 `parquet:"self_times"`
	Coarse    int64 `parquet:"coarse"`
}

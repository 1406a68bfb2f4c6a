package reader

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// FormatError reports input that cannot be read at all.
type FormatError struct {
	File   string
	Offset int64 // after decompression; a line number in trace YAML
	Err    error
}

// Error names the file and the offset.
func (e *FormatError) Error() string {
	return fmt.Sprintf("%s: offset %#x: %v", e.File, e.Offset, e.Err)
}

// Unwrap returns Err.
func (e *FormatError) Unwrap() error { return e.Err }

// ErrNotTrace is wrapped by the error of [Open] for input that is not an XRay trace.
var ErrNotTrace = errors.New("not an XRay trace")

// Cause is the reason of a loss.
type Cause uint8

const (
	// TruncatedFile: the file ends inside a record or a block. Either the program was killed, or
	// the copy is incomplete.
	TruncatedFile Cause = iota
	// ShortBlock: the last record of an FDR block exceeds the size that the block declares.
	// compiler-rt forgets the headers of typed events when it counts a block's bytes.
	ShortBlock
	// BadRecord: bytes that are not a record, inside a block or a basic log.
	BadRecord
	// BadBlock: bytes between FDR blocks that are neither padding nor a block.
	BadBlock
	// NoClock: FDR records before the first timestamp of their block.
	NoClock
	// OrphanArgument: a logged argument without its entry. compiler-rt's basic mode writes
	// them for calls deeper than max_stack_depth.
	OrphanArgument
	// DuplicateRun: records that are in the log already. A forked process wrote
	// the records that its parent had not yet flushed again, or the FDR runtime
	// wrote a buffer twice.
	DuplicateRun
	// NewerVersion: the header's version is newer than any that this program supports,
	// and the records are read as those of the newest supported version. Or a part of
	// the recorder's metadata is newer, and is ignored.
	NewerVersion
	// BadMetadata: the recorder's metadata is damaged or inconsistent.
	BadMetadata
	// TrailingGarbage: bytes that are neither compressed nor padding follow the
	// compressed data.
	TrailingGarbage
	// BadTime: an implausible time, which counts as 0.
	BadTime
	// Checksum: a block differs from its checksum. All of its records are read.
	Checksum
	// ManyRoots: a profile has one outermost function many times, so calls may be missing.
	ManyRoots
	numCauses
)

var causes = [numCauses]struct{ name, text, remedy string }{
	TruncatedFile: {"truncated-file", "the file ends inside a record",
		"let the program finish writing its log, or copy the file again"},
	ShortBlock: {"short-block", "the last record of a block is truncated",
		"LLVM's recorder miscounts blocks with typed events. In a log without typed events, this is damage. Nothing else is affected"},
	BadRecord: {"bad-record", "bytes that are not a record",
		"inspect them with fdr-dump. If the file was damaged after recording, copy it again or record again"},
	BadBlock: {"bad-block", "bytes between blocks that are not a block",
		"inspect them with fdr-dump. If the file was damaged after recording, copy it again or record again"},
	NoClock: {"no-clock", "records before the first timestamp of their block",
		"inspect the block with fdr-dump"},
	OrphanArgument: {"orphan-argument", "logged arguments without the entry of their function",
		"record with a larger max_stack_depth: the calls were deeper. Otherwise the log is damaged: inspect it with fdr-dump"},
	DuplicateRun: {"duplicate-run", "records that are in the file twice",
		"no action needed: xray ignores the copies. In an FDR log, they may replace another block, which is lost"},
	NewerVersion: {"newer-version", "the version of the file is newer than this program",
		"check the result, and look for a newer release of xray"},
	BadMetadata: {"bad-metadata", "the recorder's metadata is damaged",
		"records are not affected. Pass the program with -m if names are missing, and inspect the damage with fdr-dump"},
	TrailingGarbage: {"trailing-garbage", "bytes that are not compressed follow the compressed data",
		"no action needed: the compressed data is complete. Something was appended to the file"},
	BadTime: {"bad-time", "times that are negative",
		"no action needed: such times count as 0. LLVM's profiling mode writes them where calls have no exit record"},
	Checksum: {"checksum", "a block differs from its checksum, so some of its contents are wrong",
		"the file was damaged after recording: copy it again or record again"},
	ManyRoots: {"many-roots", "an outermost function is in a profile many times, so calls may be missing",
		"LLVM's profiling mode takes memory for each outermost call, and drops calls if a thread has no more. " +
			"Raise the limit with XRAY_PROFILING_OPTIONS=per_thread_allocator_max=16777216, or use xray record"},
}

// String is the cause's name in reports and JSON.
func (c Cause) String() string { return causes[c].name }

// Text describes the damage in a few words, in lower case.
func (c Cause) Text() string { return causes[c].text }

// Remedy says what a user can do about it, in lower case and without the last period.
func (c Cause) Remedy() string { return causes[c].remedy }

// Loss is a part of a trace that could not be used.
type Loss struct {
	Cause   Cause
	File    string
	Offset  int64 // of the first lost byte, after decompression
	Bytes   int64 // bytes of the file that were skipped
	Records int64 // lost records, as far as known; a lower bound
	Detail  string
}

// String names the file, the offset and the cause.
func (l Loss) String() string {
	s := fmt.Sprintf("%s: offset %#x: %s", l.File, l.Offset, l.Cause.Text())
	if l.Detail != "" {
		s += ": " + l.Detail
	}
	return s
}

// Losses counts losses by cause. The zero value is empty.
type Losses struct {
	Total [numCauses]LossTotal
	// samples are the first losses of each cause by offset. They do not depend on
	// the order in which blocks were decoded.
	samples [numCauses][]Loss
}

// LossTotal counts the losses of one cause.
type LossTotal struct{ Losses, Bytes, Records int64 }

// maxSamples limits the losses of a cause that are kept individually.
const maxSamples = 16

func (ls *Losses) add(l Loss) {
	t := &ls.Total[l.Cause]
	t.Losses++
	t.Bytes += l.Bytes
	t.Records += l.Records
	ls.keep(l)
}

func (ls *Losses) keep(l Loss) {
	s := ls.samples[l.Cause]
	i, _ := slices.BinarySearchFunc(s, l, compareLosses)
	if i == maxSamples {
		return
	}
	s = slices.Insert(s, i, l)
	ls.samples[l.Cause] = s[:min(len(s), maxSamples)]
}

func compareLosses(a, b Loss) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
}

func (ls *Losses) merge(other *Losses) {
	for c := range other.Total {
		t, o := &ls.Total[c], other.Total[c]
		t.Losses += o.Losses
		t.Bytes += o.Bytes
		t.Records += o.Records
		for _, l := range other.samples[c] {
			ls.keep(l)
		}
	}
}

// Count is the number of losses of all causes.
func (ls *Losses) Count() int64 {
	var n int64
	for _, t := range ls.Total {
		n += t.Losses
	}
	return n
}

// Records is the number of lost records, as far as known.
func (ls *Losses) Records() int64 {
	var n int64
	for _, t := range ls.Total {
		n += t.Records
	}
	return n
}

// Samples returns the first few losses of every cause, ordered by cause, file
// and offset.
func (ls *Losses) Samples() []Loss {
	var all []Loss
	for _, s := range ls.samples {
		all = append(all, s...)
	}
	return all
}

// First returns the first loss in the files.
func (ls *Losses) First() (Loss, bool) {
	all := ls.Samples()
	if len(all) == 0 {
		return Loss{}, false
	}
	return slices.MinFunc(all, compareLosses), true
}

package reader

import (
	"encoding/binary"
	"math"
)

// Type is the kind of log that a trace file holds.
type Type uint16

const (
	Basic Type = 0 // "naive" mode: 32-byte records
	FDR   Type = 1 // flight data recorder mode: blocks of 8- and 16-byte records
	// Profiling mode: sums of calls by path, in [Recording.Profiles]. Its files have a header
	// of their own, without this number.
	Profiling Type = math.MaxUint16
)

// String returns the user-visible name of the mode.
func (t Type) String() string {
	switch t {
	case Basic:
		return "basic"
	case FDR:
		return "fdr"
	case Profiling:
		return "profiling"
	}
	return "unknown"
}

// Header is the first 32 bytes of a trace, or the header of trace YAML.
type Header struct {
	Version        uint16
	Type           Type
	ConstantTSC    bool
	NonstopTSC     bool
	CycleFrequency uint64 // ticks per second; 0 means unknown, and times stay in ticks
	BufferSize     uint64 // FDR: size of a thread's buffer in bytes
	ByteOrder      binary.ByteOrder
	Recorder       bool // FDR: xray's own recorder wrote the file; see [Trace.Recording]
}

package debuginfo

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Codes of DWARF line tables, from the DWARF 5 standard, sections 6.2 and 7.22.
const (
	lnsCopy             = 1
	lnsAdvancePC        = 2
	lnsAdvanceLine      = 3
	lnsSetFile          = 4
	lnsSetColumn        = 5
	lnsConstAddPC       = 8
	lnsFixedAdvancePC   = 9
	lneEndSequence      = 1
	lneSetAddress       = 2
	lnctPath            = 1
	lnctDirectoryIndex  = 2
	lnctMD5             = 5
	lastStandardVersion = 5
)

var errLineHeader = errors.New("damaged header")

// lineTable is the header of a line table.
type lineTable struct {
	order       binary.ByteOrder
	version     uint16
	wide        bool // 64-bit DWARF
	addressSize int
	minInst     uint64
	lineBase    int64
	lineRange   uint64
	opcodeBase  int
	operands    []byte // number of operands of the standard opcodes
	lists       []byte // directories and files, in the form of the version
	program     []byte
}

// parseLineTable parses the header of a line table. body is everything after the unit length.
func parseLineTable(body []byte, order binary.ByteOrder, wide bool, addressSize int) (*lineTable, error) {
	t := &lineTable{order: order, wide: wide, addressSize: addressSize}
	c := cursor{b: body, order: order}
	t.version = uint16(c.uint(2))
	if c.bad || t.version < 2 || t.version > lastStandardVersion {
		return nil, fmt.Errorf("unknown version %d", t.version)
	}
	if t.version >= 5 {
		t.addressSize = int(c.uint(1))
		c.uint(1) // size of segment selectors
	}
	length := c.offset(wide)
	if c.bad || length > uint64(len(c.b)) {
		return nil, errLineHeader
	}
	t.program = c.b[length:]
	c.b = c.b[:length]
	t.minInst = c.uint(1)
	if t.version >= 4 {
		c.uint(1) // operations per instruction; more than 1 only in VLIW tables, which no compiler writes
	}
	c.uint(1) // is_stmt
	t.lineBase = int64(int8(c.uint(1)))
	t.lineRange = c.uint(1)
	t.opcodeBase = int(c.uint(1))
	if c.bad || t.opcodeBase == 0 {
		return nil, errLineHeader
	}
	t.operands = c.take(uint64(t.opcodeBase - 1))
	if c.bad || t.lineRange == 0 && t.opcodeBase < 256 {
		return nil, errLineHeader
	}
	t.lists = c.b
	return t, nil
}

// row is a row of a line table.
type row struct {
	address uint64
	file    uint64
	line    uint64
	column  uint64
}

// wanted lists the addresses to find rows for, sorted and distinct. The function at starts[i]
// ends before ends[i].
type wanted struct {
	starts, ends []uint64
	// first is a lower bound of the addresses of code. Linkers set the addresses of dropped
	// code to 0.
	first uint64
}

// seeker takes the rows of a line table and reports those of wanted addresses.
//
// An address gets the first row at exactly this address, which is the line that opens the
// function, or else the row that contains it. Rows of line 0 do not count. They stand for code
// without a source line, which optimized programs have at their sleds. If there are no others,
// the next row of the function with a line counts.
type seeker struct {
	wanted
	report func(i int, r row)

	next   int // index of the first address not yet passed
	target uint64
	prev   row
	// within is true inside a sequence of rows.
	within bool
	atNext row // first row with a line that is exactly at the next address
}

func (s *seeker) aim(next int) {
	s.next, s.target, s.atNext = next, math.MaxUint64, row{}
	if next < len(s.starts) {
		s.target = s.starts[next]
	}
}

// row takes the next row. It is called for every row, and is short enough to be inlined.
func (s *seeker) row(r row) {
	if r.address < s.target && s.within && r.address >= s.prev.address {
		s.prev = r
		return
	}
	s.match(r, false)
}

func (s *seeker) match(r row, end bool) {
	if end && !s.within {
		return
	}
	if !s.within {
		i, _ := slices.BinarySearch(s.starts, r.address)
		if r.address < s.first {
			i = len(s.starts)
		}
		s.aim(i)
		s.within = true
	} else if r.address < s.prev.address {
		// Addresses must ascend. Other rows are damage, or dropped code whose address was set
		// close to the end of memory. They end the sequence.
		s.aim(len(s.starts))
	}
	for r.address > s.target {
		switch {
		case s.atNext.line != 0:
			s.report(s.next, s.atNext)
		case s.prev.line != 0:
			s.report(s.next, s.prev)
		case end || r.address >= s.ends[s.next]:
			// The function has no line at all.
		case r.line != 0:
			s.report(s.next, r)
		default:
			s.prev.line = 0
			s.prev.address = r.address
			return
		}
		s.aim(s.next + 1)
	}
	if r.address == s.target && r.line != 0 && s.atNext.line == 0 && !end {
		s.atNext = r
	}
	s.prev = r
}

// run executes the program of the table, up to its end or its first error.
func (t *lineTable) run(s *seeker) {
	// Effects of the special opcodes.
	var addPC [256]uint64
	var addLine [256]int64
	for op := t.opcodeBase; op < 256; op++ {
		n := uint64(op - t.opcodeBase)
		addPC[op] = n / t.lineRange * t.minInst
		addLine[op] = t.lineBase + int64(n%t.lineRange)
	}
	c := cursor{b: t.program, order: t.order}
	start := row{file: 1, line: 1}
	r := start
	s.within = false
	for len(c.b) > 0 && !c.bad {
		op := int(c.b[0])
		c.b = c.b[1:]
		if op >= t.opcodeBase {
			r.address += addPC[op]
			r.line = uint64(int64(r.line) + addLine[op])
			s.row(r)
			continue
		}
		switch op {
		case 0:
			body := c.take(c.uleb())
			if len(body) == 0 {
				continue
			}
			switch body[0] {
			case lneEndSequence:
				s.match(r, true)
				s.within = false
				r = start
			case lneSetAddress:
				size := len(body) - 1
				if size == 1 || size == 2 || size == 4 || size == 8 {
					r.address = readUint(t.order, body[1:], size)
				}
			}
		case lnsCopy:
			s.row(r)
		case lnsAdvancePC:
			r.address += c.uleb() * t.minInst
		case lnsAdvanceLine:
			r.line = uint64(int64(r.line) + c.sleb())
		case lnsSetFile:
			r.file = c.uleb()
		case lnsSetColumn:
			r.column = c.uleb()
		case lnsConstAddPC:
			r.address += addPC[255]
		case lnsFixedAdvancePC:
			r.address += c.uint(2)
		default: // other opcodes, also of later versions
			for range t.operands[op-1] {
				c.uleb()
			}
		}
	}
}

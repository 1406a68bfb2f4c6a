package args

import (
	"encoding/binary"

	"github.com/xray-tools/xray/recorder/args/value"
)

// machine runs steps as the recorder does.
type machine struct {
	general [16]uint64 // in the numbering of DWARF
	vectors [16][2]uint64
	read    func(address uint64, b []byte) bool
}

func (m *machine) run(p Program) value.Recorded {
	var a, b uint64
	for i := 0; i < len(p); i++ {
		switch s := p[i]; s.Op {
		case REG:
			a = m.general[s.A]
		case XMM:
			a = m.vectors[s.A][s.B]
		case CFA:
			a = m.general[7] + 8 + uint64(int64(s.K))
		case ADD:
			a += uint64(int64(s.K))
		case LOAD:
			var buf [8]byte
			if !m.read(a+uint64(int64(s.K)), buf[:s.A]) {
				return value.Recorded{Flags: value.Unreadable, Data: make([]byte, 8)}
			}
			a = binary.LittleEndian.Uint64(buf[:])
		case SHL:
			a <<= s.K
		case SHR:
			a >>= s.K
		case SAR:
			a = uint64(int64(a) >> s.K)
		case MOVE:
			b = a
		case SWAP:
			a, b = b, a
		case JZ:
			if a == 0 {
				i += int(s.K)
			}
		case JUMP:
			i += int(s.K)
		case INDEX:
			a = b + a*uint64(int64(s.K))
		case AND:
			a &= uint64(uint32(s.K))
		case SCALAR:
			return value.Of(a)
		case WIDE:
			return value.Recorded{Data: binary.LittleEndian.AppendUint64(value.Of(a).Data, b)}
		case BYTES:
			r := value.Recorded{Length: uint32(min(a, 1<<32-1)), Data: make([]byte, min(a, uint64(s.K)))}
			if a > uint64(s.K) {
				r.Flags |= value.Truncated
			}
			if !m.read(b, r.Data) {
				return value.Recorded{Flags: value.Unreadable}
			}
			return r
		case CSTRING:
			var r value.Recorded
			for len(r.Data) < int(s.K) {
				var c [1]byte
				if !m.read(a+uint64(len(r.Data)), c[:]) {
					return value.Recorded{Flags: value.Unreadable}
				}
				if c[0] == 0 {
					r.Length = uint32(len(r.Data))
					return r
				}
				r.Data = append(r.Data, c[0])
			}
			r.Flags, r.Length = value.Truncated, 1<<32-1
			return r
		case NONE:
			return value.Recorded{Flags: value.None, Data: make([]byte, 8)}
		}
	}
	return value.Recorded{Flags: value.Unreadable}
}

package elftest

import "encoding/binary"

// Row is a row of a line table.
type Row struct{ Address, Line uint64 }

// LineProgram is the program of a line table.
type LineProgram struct {
	Bytes []byte
}

// Row adds a row. advance is the difference to the previous line.
func (b *LineProgram) Row(address uint64, advance int64) {
	b.Bytes = append(b.Bytes, 0, 9, 2)
	b.Bytes = binary.LittleEndian.AppendUint64(b.Bytes, address)
	b.Bytes = append(b.Bytes, 3)
	b.Bytes = appendSleb(b.Bytes, advance)
	b.Bytes = append(b.Bytes, 1)
}

func appendSleb(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7F)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

// Sequence adds rows and an end at the address of the last one.
func (b *LineProgram) Sequence(rows ...Row) {
	line := int64(1)
	for i, r := range rows {
		if i == len(rows)-1 {
			b.Bytes = append(b.Bytes, 0, 9, 2)
			b.Bytes = binary.LittleEndian.AppendUint64(b.Bytes, r.Address)
			b.Bytes = append(b.Bytes, 0, 1, 1)
			break
		}
		b.Row(r.Address, int64(r.Line)-line)
		line = int64(r.Line)
	}
}

// LineTable encodes a line table with its length. lists has the directories and files.
func LineTable(version uint16, lists []byte, rows ...Row) []byte {
	order := binary.LittleEndian
	var b LineProgram
	b.Sequence(rows...)
	header := []byte{1, 1, 1, 0xFD, 12, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1}
	header = append(header, lists...)
	body := order.AppendUint16(nil, version)
	if version == 5 {
		body = append(body, 8, 0)
	}
	body = order.AppendUint32(body, uint32(len(header)))
	body = append(append(body, header...), b.Bytes...)
	return append(order.AppendUint32(nil, uint32(len(body))), body...)
}

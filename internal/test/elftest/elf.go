// Package elftest makes ELF files for tests: from sections, with compilers, and hostile ones.
package elftest

import (
	"debug/elf"
	"encoding/binary"
)

// ByteOrder is the interface of both byte orders of encoding/binary.
type ByteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// Section is a section of a file.
type Section struct {
	Name       string
	Kind       elf.SectionType
	Flags      elf.SectionFlag
	Address    uint64
	Link, Info uint32
	Data       []byte
}

// File builds an ELF file from sections. Section indexes start at 1.
func File(order ByteOrder, class elf.Class, machine elf.Machine, kind elf.Type, sections ...Section) []byte {
	word, headerSize, sectionSize := 8, 64, 64
	if class == elf.ELFCLASS32 {
		word, headerSize, sectionSize = 4, 52, 40
	}
	names := []byte{0}
	all := append([]Section{{}}, sections...)
	all = append(all, Section{Name: ".shstrtab", Kind: elf.SHT_STRTAB})
	var nameAt []int
	for _, s := range all {
		nameAt = append(nameAt, len(names))
		names = append(append(names, s.Name...), 0)
	}
	all[len(all)-1].Data = names
	body := make([]byte, headerSize)
	var at []int
	for _, s := range all {
		at = append(at, len(body))
		body = append(body, s.Data...)
	}
	table := len(body)
	num := func(b []byte, size int, v uint64) []byte {
		switch size {
		case 2:
			return order.AppendUint16(b, uint16(v))
		case 4:
			return order.AppendUint32(b, uint32(v))
		}
		return order.AppendUint64(b, v)
	}
	for i, s := range all {
		size := len(s.Data)
		body = num(body, 4, uint64(nameAt[i]))
		body = num(body, 4, uint64(s.Kind))
		body = num(body, word, uint64(s.Flags))
		body = num(body, word, s.Address)
		body = num(body, word, uint64(at[i]))
		body = num(body, word, uint64(size))
		body = num(body, 4, uint64(s.Link))
		body = num(body, 4, uint64(s.Info))
		body = num(body, word, 1)
		body = num(body, word, 0)
	}
	data := byte(elf.ELFDATA2LSB)
	if order == ByteOrder(binary.BigEndian) {
		data = byte(elf.ELFDATA2MSB)
	}
	h := append([]byte(elf.ELFMAG), byte(class), data, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	h = num(h, 2, uint64(kind))
	h = num(h, 2, uint64(machine))
	h = num(h, 4, 1)
	h = num(h, word, 0) // entry
	h = num(h, word, 0) // program headers
	h = num(h, word, uint64(table))
	h = num(h, 4, 0)
	h = num(h, 2, uint64(headerSize))
	h = num(h, 2, 0)
	h = num(h, 2, 0)
	h = num(h, 2, uint64(sectionSize))
	h = num(h, 2, uint64(len(all)))
	h = num(h, 2, uint64(len(all)-1))
	copy(body, h)
	return body
}

// Words encodes integers of a size.
func Words(order ByteOrder, size int, values ...uint64) []byte {
	var b []byte
	for _, v := range values {
		if size == 4 {
			b = order.AppendUint32(b, uint32(v))
		} else {
			b = order.AppendUint64(b, v)
		}
	}
	return b
}

// Sled encodes an entry of an instrumentation map.
func Sled(order ByteOrder, word int, address, function uint64, kind, always, version byte) []byte {
	b := Words(order, word, address, function)
	b = append(b, kind, always, version)
	return append(b, make([]byte, 4*word-len(b))...)
}

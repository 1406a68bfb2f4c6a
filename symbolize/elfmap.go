package symbolize

import (
	"errors"
	"fmt"
	"math"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

const mapSection = "xray_instr_map"

// errNoMap is returned for ELF files without an instrumentation map.
var errNoMap = errors.New("no " + mapSection + " section: build the file with -fxray-instrument, and do not strip this section")

// readMap decodes the instrumentation map. Object files have a map section for each function or
// text section. Linked files have one.
func readMap(e *debuginfo.ELF) (*Map, error) {
	header := e.Header()
	m := &Map{Machine: header.Machine, Class: header.Class, ByteOrder: header.ByteOrder}
	sections := e.SectionsNamed(mapSection)
	if len(sections) == 0 {
		return nil, errNoMap
	}
	for _, s := range sections {
		if err := m.readSleds(e, s); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// readSleds appends the sleds and functions of one section to the map.
func (m *Map) readSleds(e *debuginfo.ELF, s *debuginfo.Section) error {
	data, err := s.Bytes()
	if err != nil {
		return err
	}
	word := e.WordSize()
	size := 4 * word
	if len(data)%size != 0 {
		return fmt.Errorf("section %s: %d bytes are not a whole number of %d-byte sleds", mapSection, len(data), size)
	}
	if !e.Relocatable() && hasAbsolute(data, size, word) {
		if err := s.RelocateDynamic(); err != nil {
			return err
		}
	}
	if len(m.Sleds) == 0 {
		m.Sleds = make([]Sled, 0, len(data)/size)
		m.Functions = make([]Function, 0, len(data)/size/2) // most have an entry and an exit
	}
	for at := 0; at < len(data); at += size {
		b := data[at:][:size]
		sled := Sled{
			Kind:             SledKind(b[2*word]),
			AlwaysInstrument: b[2*word+1] != 0,
			Version:          b[2*word+2],
		}
		if sled.Kind > TypedEvent {
			return fmt.Errorf("section %s: offset %#x: unknown sled kind %d", mapSection, at, sled.Kind)
		}
		address, function := e.Word(b), e.Word(b[word:])
		if sled.Version >= 2 {
			here := s.Address() + uint64(at)
			address += here
			function += here + uint64(word)
		}
		if word == 4 {
			address, function = uint64(uint32(address)), uint64(uint32(function))
		}
		var ok1, ok2 bool
		sled.Address, ok1 = e.FileAddress(address)
		sled.Function, ok2 = e.FileAddress(function)
		if !ok1 || !ok2 {
			return fmt.Errorf("section %s: offset %#x: the sled points outside all sections", mapSection, at)
		}
		n := len(m.Functions)
		if n == 0 || m.Functions[n-1].key != function {
			if n == math.MaxInt32 {
				return fmt.Errorf("section %s: more functions than IDs", mapSection)
			}
			n++
			m.Functions = append(m.Functions, Function{ID: reader.FuncID(n), Address: sled.Function, key: function})
		}
		sled.ID = reader.FuncID(n)
		m.Sleds = append(m.Sleds, sled)
	}
	return nil
}

// hasAbsolute reports whether any sled holds addresses instead of distances.
func hasAbsolute(data []byte, size, word int) bool {
	for at := 0; at < len(data); at += size {
		if data[at+2*word+2] < 2 {
			return true
		}
	}
	return false
}

// notELF explains formats that users may confuse with those that this package reads. It returns
// nil for text.
func notELF(head []byte) error {
	has := func(magic string) bool { return len(head) >= len(magic) && string(head[:len(magic)]) == magic }
	switch {
	case has("\xcf\xfa\xed\xfe"), has("\xce\xfa\xed\xfe"), has("\xfe\xed\xfa\xcf"), has("\xfe\xed\xfa\xce"), has("\xca\xfe\xba\xbe"):
		return errors.New("Mach-O files are not supported: pass an ELF file, or the map that `llvm-xray extract` writes for this one")
	case has("!<arch>\n"):
		return errors.New("a static library has no function IDs: pass the program that it is linked into")
	case has("MZ"):
		return errors.New("this is a Windows program: XRay supports ELF only")
	}
	for _, c := range head {
		if c == 0 {
			return errors.New("neither an ELF file nor a YAML instrumentation map: is this the trace itself?")
		}
	}
	return nil
}

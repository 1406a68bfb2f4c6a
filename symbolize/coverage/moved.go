package coverage

import (
	"debug/elf"

	"github.com/xray-tools/xray/symbolize"
	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// Moved counts the functions of a map that BOLT has copied elsewhere in the binary at path, without their sleds. It
// returns 0 if BOLT did not rewrite the file, or if that is not an ELF file.
func Moved(path string, m *symbolize.Map) (moved int) {
	_ = debuginfo.ReadELF(path, func(f *elf.File) error { // a map may have another format
		old := f.Section(".bolt.org.text")
		if old == nil {
			return nil
		}
		symbols, err := f.Symbols()
		if err != nil {
			return err
		}
		starts := make(map[uint64]bool)
		for _, s := range symbols {
			starts[s.Value] = elf.ST_TYPE(s.Info) == elf.STT_FUNC || starts[s.Value]
		}
		for _, f := range m.Functions {
			if f.Address-old.Addr < old.Size && !starts[f.Address] {
				moved++
			}
		}
		return nil
	})
	return moved
}

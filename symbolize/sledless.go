package symbolize

import (
	"debug/elf"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/xray-tools/xray/symbolize/debuginfo"
	"github.com/xray-tools/xray/symbolize/demangle"
)

// Sledless says which functions of some files match an expression but have no sleds. It returns "" if there is
// none.
func Sledless(paths []string, re *regexp.Regexp) string {
	for _, path := range paths {
		if names := withoutSleds(path, re); len(names) > 0 {
			has := "has no sleds, so its calls are not recorded"
			if len(names) > 1 {
				has = "have no sleds, so their calls are not recorded"
			}
			return fmt.Sprintf(": %s of %s %s. For the reason, run xray extract --stats %s", strings.Join(names, ", "), filepath.Base(path), has, path)
		}
	}
	return ""
}

// withoutSleds returns the short names of a file's functions that match an expression but have no sleds, the
// first few of them. It returns nil if the file cannot be read.
func withoutSleds(path string, re *regexp.Regexp) (names []string) {
	const most = 3
	_ = debuginfo.ReadELF(path, func(f *elf.File) error {
		has := make(map[uint64]bool)
		if m, err := LoadMap(path); err == nil {
			for _, fn := range m.Functions {
				has[fn.Address] = true
			}
		}
		symbols, err := f.Symbols()
		if err != nil {
			symbols, err = f.DynamicSymbols()
		}
		for _, s := range symbols {
			if elf.ST_TYPE(s.Info) != elf.STT_FUNC || s.Size == 0 || has[s.Value] {
				continue
			}
			if name := demangle.Name(s.Name); Matches(re, name) && !slices.Contains(names, Shorten(name)) {
				names = append(names, Shorten(name))
			}
			if len(names) == most {
				break
			}
		}
		return err
	})
	slices.Sort(names)
	return names
}

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/xray-tools/xray/symbolize"
)

// nameFlags say where the names of functions come from.
type nameFlags struct {
	maps          []string
	sysroot       string
	symbols       []string
	ignoreBuildID bool
	demangle      demangleFlags
}

func (f *nameFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVarP(&f.maps, "instr-map", "m", nil,
		"take names from `FILE`: the traced binary, or a map that extract wrote; N=FILE is for shared object N")
	flags.StringArrayVar(&f.symbols, "symbols", nil,
		"look in `DIR` for binaries and debug files, by build id (.build-id/xx/...), path and name; repeatable")
	flags.StringVar(&f.sysroot, "sysroot", "", "look below `DIR` for what the trace says it was recorded from")
	flags.BoolVar(&f.ignoreBuildID, "ignore-build-id", false, "take names from files of another build, too; they may be wrong")
}

func (f *nameFlags) search() symbolize.Search {
	opts := f.demangle.options()
	opts.DebugDirs = append(f.symbols[:len(f.symbols):len(f.symbols)], filepath.Join("/", f.sysroot, "usr/lib/debug"))
	return symbolize.Search{Options: opts, Sysroot: f.sysroot, Dirs: f.symbols, IgnoreBuildID: f.ignoreBuildID}
}

// given are the files that -m names, by the number of the object.
func (f *nameFlags) given() (map[int]string, error) {
	files := make(map[int]string)
	for _, arg := range f.maps {
		object, path := 0, arg
		if number, file, ok := strings.Cut(arg, "="); ok {
			if n, err := strconv.ParseUint(number, 10, 8); err == nil {
				object, path = int(n), file
			}
		}
		if path == "" {
			return nil, usagef("-m: the name of a file is empty")
		}
		if files[object] != "" {
			return nil, usagef("two maps for object %d: say which object each is for, as in -m 1=libcodec.so", object)
		}
		files[object] = path
	}
	return files, nil
}

// openNames finds the names of the trace's functions: in the files that -m names,
// and in the objects that the recorder of the trace named.
func (s *session) openNames(f *nameFlags) error {
	given, err := f.given()
	if err != nil {
		return err
	}
	objects, addresses, err := s.trace.Objects()
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		return s.openMaps(given, f.search().Options)
	}
	for n := range given {
		if n >= len(objects) {
			return usagef("-m: there is no object %d: `xray info` lists the objects that were recorded, from 0 to %d", n, len(objects)-1)
		}
	}
	names, missing, err := symbolize.LoadRecorded(objects, addresses, given, f.search())
	if err != nil {
		return err
	}
	s.names, s.closeNames, s.missing = names, names.Close, missing
	s.warnOfMissing()
	return nil
}

// openMaps loads the maps of a program and of its shared objects.
func (s *session) openMaps(files map[int]string, opts symbolize.Options) error {
	if len(files) == 0 {
		return nil
	}
	tables := make(symbolize.Objects)
	s.closeNames = func() (err error) {
		for _, t := range tables {
			err = errors.Join(err, t.Close())
		}
		return err
	}
	for object, path := range files {
		table, err := symbolize.Load(path, opts)
		if err != nil {
			return err
		}
		tables[uint8(object)] = table
	}
	s.names = tables
	if main := tables[0]; main != nil && len(tables) == 1 {
		s.names = main
	}
	return nil
}

// warnOfMissing tells which objects have no names: those of another build one by
// one, as their names would be at hand and wrong, the others in a line.
func (s *session) warnOfMissing() {
	var gone []string
	for _, m := range s.missing {
		if !m.Changed {
			gone = append(gone, m.Object.Path)
			continue
		}
		fmt.Fprintf(s.app.stderr, "xray: warning: %s is not what was recorded: %v; its functions are shown by number: "+
			"give the right file with -m %d=FILE or --symbols DIR, or insist with --ignore-build-id\n", m.Path, m.Err, m.Number)
	}
	if len(gone) > 0 {
		fmt.Fprintf(s.app.stderr, "xray: no names for %s; -m N=FILE, --sysroot or --symbols say where to look, and `xray info` what is wrong\n",
			shortList(gone, 4))
	}
}

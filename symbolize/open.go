package symbolize

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/xray-tools/xray/reader"
)

// Opened are the names of the functions of a trace.
type Opened struct {
	// Names are nil where neither the trace nor a file says which functions there
	// are. They may be used concurrently until Close.
	Names Names
	// Missing are the recorded objects that no file was found for, or that were given
	// one of another build.
	Missing []Missing

	close []func() error
}

// Open finds the names of the functions of a trace where they are. A trace of this
// project's recorder says which program and shared objects it is of, and those are
// searched for as s says, unless names were packed into the trace. For other traces, and for objects that are somewhere else,
// files are given by the number of the object, of which the program is 0: binaries,
// or the maps that `xray extract` writes. It is an error if one of these cannot be
// used. The files stay open until [Opened.Close].
func Open(t *reader.Trace, files map[int]string, s Search) (*Opened, error) {
	functions, err := t.Functions()
	if err != nil {
		return nil, err
	}
	if len(functions) > 0 && len(files) == 0 {
		return &Opened{Names: NewStored(functions, s.Style)}, nil
	}
	objects, addresses, err := t.Objects()
	if err != nil {
		return nil, err
	}
	numbers := slices.Sorted(maps.Keys(files))
	if len(objects) > 0 {
		for _, n := range numbers {
			if n < 0 || n >= len(objects) {
				return nil, fmt.Errorf("%s: there is no object %d: `xray info` lists the objects that were recorded, from 0 to %d",
					files[n], n, len(objects)-1)
			}
		}
		names, missing, err := LoadRecorded(objects, addresses, files, s)
		if err != nil {
			return nil, err
		}
		return &Opened{names, missing, []func() error{names.Close}}, nil
	}
	o := &Opened{}
	tables := make(Objects)
	for _, n := range numbers {
		path := files[n]
		if n < 0 || n > 255 {
			return nil, errors.Join(fmt.Errorf("%s: there is no object %d: ids have room for 0 to 255", path, n), o.Close())
		}
		table, err := Load(path, s.Options)
		if err != nil {
			return nil, errors.Join(err, o.Close())
		}
		tables[uint8(n)] = table
		o.close = append(o.close, table.Close)
	}
	switch main := tables[0]; {
	case len(tables) == 1 && main != nil:
		o.Names = main
	case len(tables) > 0:
		fdr := false
		for i := range t.Files() {
			fdr = fdr || t.Header(i).Type == reader.FDR
		}
		o.Names = NewPacked(tables, fdr)
	}
	return o, nil
}

// Close closes the files. Locations that were not asked for before are unknown from
// then on.
func (o *Opened) Close() error {
	var err error
	for _, f := range o.close {
		err = errors.Join(err, f())
	}
	return err
}

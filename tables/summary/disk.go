package summary

import (
	"errors"
	"fmt"
	"io"
)

// OpenSource opens a summary as a source of groups. It calls open for the bytes and their number, each
// time that it reads after Close, and then closes what open returned. Errors name the summary.
func OpenSource(name string, open func() (io.ReaderAt, int64, io.Closer, error)) (Source, error) {
	d := &disk{name: name, opener: open}
	if err := d.open(); err != nil {
		return nil, err
	}
	defer d.Close()
	if !d.file.Ordered() {
		groups, err := d.file.Groups()
		return Memory(groups), err
	}
	d.keys, d.knowsOffCPU = d.file.Keys(), d.file.KnowsOffCPU()
	return d, nil
}

// disk is a summary that is not in memory.
type disk struct {
	name        string
	opener      func() (io.ReaderAt, int64, io.Closer, error)
	keys        []Key
	knowsOffCPU bool      // see File.KnowsOffCPU
	raw         io.Closer // nil while it is closed
	file        *File     // nil while it is closed
}

func (d *disk) open() error {
	if d.file != nil {
		return nil
	}
	r, size, raw, err := d.opener()
	if err != nil {
		return err
	}
	file, err := Open(r, size, d.name)
	if err != nil {
		return errors.Join(err, raw.Close())
	}
	d.raw, d.file = raw, file
	return nil
}

func (d *disk) Keys() []Key { return d.keys }

func (d *disk) KnowsOffCPU() bool { return d.knowsOffCPU }

func (d *disk) AddTo(g *Group, index int) error {
	if err := d.open(); err != nil {
		return err
	}
	if keys := d.file.Keys(); index >= len(keys) || keys[index] != d.keys[index] {
		return fmt.Errorf("%s: the file has changed while it was read", d.name)
	}
	return d.file.AddTo(g, index)
}

func (d *disk) Close() {
	if d.file != nil {
		d.file.Close()
		d.raw.Close() // it was only read
		d.raw, d.file = nil, nil
	}
}

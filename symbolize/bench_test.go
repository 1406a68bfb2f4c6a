package symbolize

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/xray-tools/xray/internal/test/elftest"
	"github.com/xray-tools/xray/reader"
)

// bigMap returns a map of many functions with names of realistic length.
func bigMap(functions int) (*Map, fakeNames) {
	m, names := new(Map), make(fakeNames)
	for i := range functions {
		f := Function{ID: reader.FuncID(i + 1), Address: 0x1000 + 64*uint64(i), Name: fmt.Sprintf("app::Store<int, %d>::put(std::string const&, int)", i)}
		m.Functions = append(m.Functions, f)
		names[f.ID] = Symbol{Name: f.Name, Address: f.Address}
		for kind := range TailExit {
			m.Sleds = append(m.Sleds, Sled{ID: f.ID, Address: f.Address + 16*uint64(kind), Function: f.Address, Kind: kind, Version: 2})
		}
	}
	return m, names
}

func BenchmarkWriteYAML(b *testing.B) {
	const functions = 10_000
	m, names := bigMap(functions)
	b.Run(fmt.Sprintf("functions=%d", functions), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := WriteYAML(io.Discard, m, names); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkReadYAML(b *testing.B) {
	for _, functions := range []int{1_000, 10_000} {
		m, names := bigMap(functions)
		var text bytes.Buffer
		if err := WriteYAML(&text, m, names); err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("path=fast/functions=%d", functions), func(b *testing.B) {
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				if !newMapBuilder().scan(text.Bytes()) {
					b.Fatal("the fast path refused the map")
				}
			}
		})
	}
	m, names := bigMap(1_000)
	var text bytes.Buffer
	if err := WriteYAML(&text, m, names); err != nil {
		b.Fatal(err)
	}
	b.Run("path=full/functions=1000", func(b *testing.B) {
		b.SetBytes(int64(text.Len()))
		for b.Loop() {
			if err := newMapBuilder().parse(text.Bytes()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkLoad measures what a command does with a program: reading its map, names and source
// locations.
func BenchmarkLoad(b *testing.B) {
	for _, v := range variants[1:3] {
		path := elftest.Compile(b, program, v.args...)
		b.Run("build="+v.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t, err := Load(path, Options{})
				if err != nil {
					b.Fatal(err)
				}
				if err := t.locate(); err != nil {
					b.Fatal(err)
				}
				t.Close()
			}
		})
	}
}

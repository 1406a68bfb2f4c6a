package symbolize_test

import (
	"fmt"
	"log"

	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// A trace of LLVM's runtime does not name its program: give the binary or its instrumentation map.
// Shared objects have numbers of their own.
func ExampleOpen() {
	trace, err := reader.Open(reader.Options{}, "../testdata/dso-fdr.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	names, err := symbolize.Open(trace, map[int]string{
		0: "../testdata/dso.yaml",
		1: "../testdata/libaudio.yaml",
		2: "../testdata/libcodec.yaml",
	}, symbolize.Search{})
	if err != nil {
		log.Fatal(err)
	}
	defer names.Close()
	for _, id := range []reader.FuncID{1, 0x01000001, 0x02000002, 99} {
		fmt.Println(symbolize.Label(names.Names, id))
	}
	// Output:
	// transfer(int)
	// audio::mix(int)
	// codec::decode(int)
	// #99
}

// A trace of this project's recorder names its files. LoadRecorded looks for them at their original
// paths and in the given folders. It accepts only the recorded build.
func ExampleOpen_recorded() {
	trace, err := reader.Open(reader.Options{}, "../testdata/kvserver-recorded.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	names, err := symbolize.Open(trace, nil, symbolize.Search{Dirs: []string{"../testdata"}})
	if err != nil {
		log.Fatal(err)
	}
	defer names.Close()
	fmt.Println(len(names.Missing), "objects are missing")
	fmt.Println(symbolize.Label(names.Names, 3), symbolize.Location(names.Names, 3))
	// Output:
	// 0 objects are missing
	// kv::hash(unsigned long) kvserver.cc:112
}

// Tables can be used without a trace.
func ExampleLoad() {
	table, err := symbolize.Load("../testdata/kvserver", symbolize.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer table.Close()
	m := table.Map()
	fmt.Println(len(m.Functions), "functions with", len(m.Sleds), "sleds, for", m.Machine)
	symbol, ok := table.Func(3)
	fmt.Println(ok, symbol.Name, symbol.Linkage, symbol.Line)
	_, ok = table.Func(1000)
	fmt.Println(ok)
	// Output:
	// 55 functions with 116 sleds, for EM_X86_64
	// true kv::hash(unsigned long) _ZN2kv4hashEm 112
	// false
}

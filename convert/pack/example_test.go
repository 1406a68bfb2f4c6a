package pack_test

import (
	"fmt"
	"log"

	"github.com/xray-tools/xray/convert/pack"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// The functions that occur in a trace, as they are stored in packed traces.
func Example() {
	trace, err := reader.Open(reader.Options{}, "../../testdata/journal-recorded.xray")
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	names, err := symbolize.Open(trace, nil, symbolize.Search{}) // this trace has its names inside
	if err != nil {
		log.Fatal(err)
	}
	defer names.Close()
	ids, err := pack.Occurring(trace, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range pack.Functions(names.Names, nil, ids)[:3] {
		fmt.Println(f.ID, f.Name, f.Line)
	}
	// Output:
	// 1 main 104
	// 2 fill 93
	// 3 answer 75
}

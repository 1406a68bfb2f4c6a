package pack_test

import (
	"fmt"
	"log"

	"github.com/xray-tools/xray/convert/pack"
	"github.com/xray-tools/xray/internal/test/recorded"
)

// The functions that occur in a trace, as they are stored in packed traces.
func Example() {
	trace, names, _, close := recorded.Open()
	defer close()
	ids, err := pack.Occurring(trace, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range pack.Functions(names, nil, ids)[:3] {
		fmt.Println(f.ID, f.Name, f.Line)
	}
	// Output:
	// 1 main 104
	// 2 fill 93
	// 3 answer 75
}

package allocations_test

import (
	"fmt"

	"github.com/xray-tools/xray/explain/allocations"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// The call paths that allocate memory.
func Example() {
	trace, err := reader.Open(reader.Options{}, "../../testdata/journal-recorded.xray")
	if err != nil {
		panic(err)
	}
	defer trace.Close()
	names, err := symbolize.Open(trace, nil, symbolize.Search{}) // this trace has its names inside
	if err != nil {
		panic(err)
	}
	defer names.Close()
	clock, err := trace.Clock()
	if err != nil {
		panic(err)
	}
	opts := allocations.Options{
		Role:  func(id reader.FuncID) allocations.Role { return allocations.RoleOf(symbolize.Label(names.Names, id)) },
		Short: clock.Frequency / 1_000_000, // a microsecond
	}
	a, _, err := calls.Run(calls.Source(trace), calls.Options{Paths: true}, func() *allocations.Analysis { return allocations.New(opts) })
	if err != nil {
		panic(err)
	}
	r := a.Report(clock)
	fmt.Println("at most", r.Peak, "bytes in use")
	for _, p := range r.Paths {
		fmt.Printf("%s allocated %d bytes in %d blocks\n", label.Path(names.Names, p.Path, 0), p.Bytes, p.Blocks)
	}
	// Output:
	// at most 18288 bytes in use
	// main > fill > addRecord allocated 9728 bytes in 64 blocks
	// main > fill > addRecord > growIndex allocated 4672 bytes in 3 blocks
	// main > fill > formatKey allocated 4096 bytes in 64 blocks
	// main allocated 4096 bytes in 1 blocks
	// main allocated 304 bytes in 1 blocks
}

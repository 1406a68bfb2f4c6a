package iocalls_test

import (
	"fmt"
	"log"

	"github.com/xray-tools/xray/explain/iocalls"
	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// The first pass finds the files and sockets of descriptors. The second one adds up the calls by file.
func Example() {
	trace, names, clock, close := recorded.Open()
	defer close()
	opened, _, err := calls.Run(calls.Source(trace), calls.Options{}, iocalls.NewNames)
	if err != nil {
		log.Fatal(err)
	}
	opts := iocalls.Options{Names: opened, Role: func(id reader.FuncID) iocalls.Role {
		return iocalls.RoleOf(symbolize.Label(names, id))
	}}
	a, _, err := calls.Run(calls.Source(trace), calls.Options{Paths: true}, func() *iocalls.Analysis { return iocalls.New(opts) })
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range a.Report(clock).Files {
		fmt.Printf("%s: %d calls, %d bytes read, %d written\n", f.Name, f.Calls, f.Read, f.Written)
	}
	// Output:
	// socket: 82 calls, 380 bytes read, 380 written
	// /tmp/xray-testdata/journal.log: 76 calls, 9216 bytes read, 9216 written
}

package tables_test

import (
	"fmt"

	"github.com/xray-tools/xray/tables"
)

// The first columns of the table of calls, as queries see them.
func Example() {
	for _, c := range tables.Calls.Of(tables.Queries)[:4] {
		fmt.Printf("%s %s: %s\n", c.Name, c.SQL(), c.About)
	}
	// Output:
	// trace TEXT: name of the trace file; in files, from the name of the folder
	// process INTEGER: process ID
	// thread INTEGER: thread ID
	// thread_name TEXT: name of the thread
}

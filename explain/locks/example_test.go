package locks_test

import (
	"fmt"
	"log"

	"github.com/xray-tools/xray/explain/locks"
	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// Options.Function says which functions lock and unlock.
func ExampleAnalyze() {
	trace, names, clock, close := recorded.Named("locks-basic.xray", "locks.yaml")
	defer close()
	r, _, err := locks.Analyze(trace, locks.Options{Clock: clock, Function: func(id reader.FuncID) locks.Function {
		switch symbolize.Label(names, id) {
		case "Mutex::lock()":
			return locks.Function{Role: locks.Lock, Class: "Mutex"}
		case "Mutex::unlock()":
			return locks.Function{Role: locks.Unlock, Class: "Mutex"}
		}
		return locks.Function{}
	}})
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range r.Locks[:2] {
		fmt.Printf("lock at %#x: taken %d times, %d waits contended\n", l.Address, l.Waits.Count, l.Contended)
	}
	fmt.Println(len(r.Cycles), "lock order that can deadlock")
	// Output:
	// lock at 0x5593c2303f98: taken 4 times, 3 waits contended
	// lock at 0x5593c2303fc0: taken 50 times, 0 waits contended
	// 1 lock order that can deadlock
}

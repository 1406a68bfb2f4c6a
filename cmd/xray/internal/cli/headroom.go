package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// ample is the headroom in bytes up to which the garbage collector keeps its default.
	ample = 8 << 20
	// leastPercent is the least headroom, in percent of the heap that is in use. Less makes
	// the collector work more than the rest of the program.
	leastPercent = 25
)

// LimitMemory keeps the heap from doubling before garbage is collected, once it is large: to
// 8 MB more than is in use, or a quarter more. It changes nothing if the environment sets
// GOGC. Call it once, at the start of the program.
func LimitMemory() {
	if os.Getenv("GOGC") != "" {
		return
	}
	l := &limiter{percent: 100, sample: []metrics.Sample{{Name: "/gc/heap/live:bytes"}}}
	runtime.SetFinalizer(&cycle{l}, (*cycle).end)
}

type limiter struct {
	percent int
	sample  []metrics.Sample
}

// cycle is collected in each cycle of the garbage collector, and revived.
type cycle struct{ limiter *limiter }

func (c *cycle) end() {
	metrics.Read(c.limiter.sample)
	if p := percent(c.limiter.sample[0].Value.Uint64()); p != c.limiter.percent {
		c.limiter.percent = p
		debug.SetGCPercent(p)
	}
	runtime.SetFinalizer(c, (*cycle).end)
}

// percent is the headroom for a heap with live bytes in use. It is rounded, because each
// change stops the program for a moment.
func percent(live uint64) int {
	p := min(100, 100*ample/max(live, 1))
	return max(leastPercent, int(p/5*5))
}

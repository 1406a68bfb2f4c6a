package reader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Budget describes the calls that a recording with a budget left out. It is zero for other
// recordings.
type Budget struct {
	Share     uint64           // of the CPU time, in millionths
	From, To  uint64           // TSCs: the time that Functions covers; To is 0 if Functions is unknown
	Functions []BudgetFunction // by ID, without functions that have all their calls in the trace
	// Totals has, if To is 0, the number of calls of each function, recorded or not, by ID. A
	// process that writes its own trace knows only these. Totals may be unknown.
	Totals []Counter
	// Changes are the moments at which functions were switched off and on, in order of time. The
	// recorder keeps a limited number.
	Changes []BudgetChange
}

// BudgetFunction describes the calls of a function that are not in the trace.
type BudgetFunction struct {
	Func FuncID
	// Counted is the number of calls that were counted but not recorded. Estimated is the estimated
	// number of calls while the function was off. Error is its standard error, or more if the
	// function is called in phases that samples may have missed.
	Counted, Estimated, Error uint64
	// Rate is the call rate in the latest samples of the function, in calls per second of CPU time of
	// the process. Mean is the mean duration of the sampled calls in ticks, and MeanError its
	// standard error. 0 means unknown.
	Rate, Mean, MeanError uint64
	// OffNS is the CPU time of the process during which the function was off, in nanoseconds.
	OffNS uint64
}

// BudgetChange is a moment at which the recorder switched a function for all threads.
type BudgetChange struct {
	TSC  uint64
	Func FuncID
	To   BudgetState
}

// BudgetState is the new state of a function.
type BudgetState uint32

const (
	// FunctionOff means that no calls that begin later are recorded, until it is on again.
	FunctionOff BudgetState = 0
	FunctionOn  BudgetState = 1
	// FunctionCut means that the ends of its open calls are not recorded either.
	FunctionCut BudgetState = 2
	// FunctionPartly means that some threads do not record their calls, until it is on again. The recorder
	// notes it for functions whose calls belong together, such as those that lock and unlock.
	FunctionPartly BudgetState = 3
)

// Limited reports whether the recording had a budget.
func (b *Budget) Limited() bool { return b.Share > 0 }

// Known reports whether Functions and Changes are complete. Otherwise xray ended before the recording
// did, or the recording is still running.
func (b *Budget) Known() bool { return b.To > 0 }

// Calls returns the number of calls that are not in the trace: those counted and those estimated.
func (b *Budget) Calls() (counted, estimated uint64) {
	for i := range b.Functions {
		counted, estimated = addClamped(counted, b.Functions[i].Counted), addClamped(estimated, b.Functions[i].Estimated)
	}
	return counted, estimated
}

func addClamped(a, b uint64) uint64 {
	if a+b < a {
		return ^uint64(0)
	}
	return a + b
}

// Missing returns the times, in order, in which calls of some of these functions may be missing: from the
// first TSC of each row up to the second.
func (b *Budget) Missing(of func(FuncID) bool) (times [][2]uint64) {
	missing := make(map[FuncID]bool)
	for _, c := range b.Changes {
		before := len(missing)
		switch {
		case !of(c.Func):
			continue
		case c.To == FunctionOn:
			delete(missing, c.Func)
		default:
			missing[c.Func] = true
		}
		switch {
		case before == 0 && len(missing) > 0:
			times = append(times, [2]uint64{c.TSC, math.MaxUint64})
		case before > 0 && len(missing) == 0:
			times[len(times)-1][1] = c.TSC
		}
	}
	return times
}

// String returns off, on, partly on, or cut, or the number of an unknown state.
func (s BudgetState) String() string {
	switch s {
	case FunctionOff:
		return "off"
	case FunctionOn:
		return "on"
	case FunctionPartly:
		return "partly on"
	case FunctionCut:
		return "cut"
	}
	return strconv.FormatUint(uint64(s), 10)
}

const (
	budgetHeader  = 32
	budgetRow     = 64
	budgetChange  = 16
	maxBudgetRows = 1 << 20
)

func (r *Recording) setBudget(body []byte) error {
	le := binary.LittleEndian
	r.Budget = Budget{Changes: r.Budget.Changes}
	if len(body) < budgetHeader {
		return errors.New("a budget without a header")
	}
	b := &r.Budget
	n, rows := le.Uint64(body), body[budgetHeader:]
	b.Share, b.From, b.To = le.Uint64(body[8:]), le.Uint64(body[16:]), le.Uint64(body[24:])
	last := FuncID(0)
	for i := uint64(0); i < min(n, maxBudgetRows) && len(rows) >= budgetRow; i, rows = i+1, rows[budgetRow:] {
		id := le.Uint32(rows)
		f := BudgetFunction{
			Func: FuncID(id), Counted: le.Uint64(rows[8:]), Estimated: le.Uint64(rows[16:]), Error: le.Uint64(rows[24:]),
			Rate: le.Uint64(rows[32:]), Mean: le.Uint64(rows[40:]), MeanError: le.Uint64(rows[48:]), OffNS: le.Uint64(rows[56:]),
		}
		if id == 0 || id > maxRecordedFunc || f.Func <= last {
			return fmt.Errorf("function %d in row %d of a budget: IDs must be from 1 to %d and in order", id, i, maxRecordedFunc)
		}
		last = f.Func
		if b.Known() {
			b.Functions = append(b.Functions, f)
		} else {
			b.Totals = append(b.Totals, Counter{f.Func, f.Counted})
		}
	}
	if there := uint64(len(b.Functions) + len(b.Totals)); there != n {
		return fmt.Errorf("a budget declares %d functions but contains %d", n, there)
	}
	return nil
}

func (r *Recording) addBudget(add func([]byte)) {
	b := &r.Budget
	if !b.Limited() {
		return
	}
	functions := b.Functions
	if !b.Known() {
		functions = nil
		for _, c := range b.Totals {
			functions = append(functions, BudgetFunction{Func: c.Func, Counted: c.Calls})
		}
	}
	le := binary.LittleEndian
	var body []byte
	for _, v := range []uint64{uint64(len(functions)), b.Share, b.From, b.To} {
		body = le.AppendUint64(body, v)
	}
	for i := range functions {
		f := &functions[i]
		for _, v := range []uint64{uint64(uint32(f.Func)), f.Counted, f.Estimated, f.Error, f.Rate, f.Mean, f.MeanError, f.OffNS} {
			body = le.AppendUint64(body, v)
		}
	}
	add(body)
}

func (r *Recording) setSwitched(body []byte) error {
	rows, err := counted(body, budgetChange)
	r.Budget.Changes = nil
	for ; len(rows) >= budgetChange && len(r.Budget.Changes) < maxBudgetRows; rows = rows[budgetChange:] {
		r.Budget.Changes = append(r.Budget.Changes, BudgetChange{
			TSC: binary.LittleEndian.Uint64(rows), Func: FuncID(binary.LittleEndian.Uint32(rows[8:])),
			To: BudgetState(binary.LittleEndian.Uint32(rows[12:])),
		})
	}
	return err
}

func (r *Recording) addSwitched(add func([]byte)) {
	if len(r.Budget.Changes) == 0 {
		return
	}
	body := binary.LittleEndian.AppendUint64(nil, uint64(len(r.Budget.Changes)))
	for _, c := range r.Budget.Changes {
		body = binary.LittleEndian.AppendUint64(body, c.TSC)
		body = binary.LittleEndian.AppendUint64(body, uint64(uint32(c.Func))|uint64(c.To)<<32)
	}
	add(body)
}

package survey

import (
	"fmt"

	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// leastOpenPile is how many nested calls of a function must be open at the end of a thread
// to be reported. A trace that ends inside a recursion has some.
const leastOpenPile = 64

// Piled reports nested calls of a function that never end although the thread has left
// them, and what that means, in sentences. Both are empty if there are none. foreign says that
// xray's own recorder wrote none of the files. names may be nil.
func Piled(s *calls.Stats, foreign bool, names symbolize.Names) (fact, advice string) {
	pile, what := s.Pile, "have no exit record"
	if pile.Calls == 0 && foreign && s.OpenPile.Calls >= leastOpenPile {
		pile, what = s.OpenPile, "are open when their thread ends"
	}
	if pile.Calls == 0 {
		return "", ""
	}
	fact = fmt.Sprintf("%s of %s, each inside the previous one, %s.", label.Count(pile.Calls, "call", "calls"), symbolize.Shorten(symbolize.Label(names, pile.Func)), what)
	cause, remedy := "the recorder did not note it, as in static programs", ""
	if foreign {
		cause, remedy = "traces of LLVM's recorders do not show it", " `xray record` notes where calls are left."
	}
	return fact, "Unless the function is recursive, exceptions or longjmp left these calls, and " + cause +
		". What the thread did next appears inside them, so durations, callers and depths are wrong." + remedy
}

package survey

import (
	"fmt"

	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// leastOpenPile is how many calls of a function, each inside the one before, must be open at
// the end of a thread to be worth a word: what is cut off within a recursion has some.
const leastOpenPile = 64

// Piled tells of calls that never end although the thread goes on further out, and what
// that means; "" where none show. foreign says that no file is of this project's recorder.
// names may be nil.
func Piled(s *calls.Stats, foreign bool, names symbolize.Names) (fact, advice string) {
	pile, what := s.Pile, "have no exit record"
	if pile.Calls == 0 && foreign && s.OpenPile.Calls >= leastOpenPile {
		pile, what = s.OpenPile, "are open when their thread ends"
	}
	if pile.Calls == 0 {
		return "", ""
	}
	fact = fmt.Sprintf("%d calls of %s, each inside the one before, %s", pile.Calls, symbolize.Shorten(symbolize.Label(names, pile.Func)), what)
	cause, remedy := "the recorder did not note that, as in static programs", ""
	if foreign {
		cause, remedy = "traces of LLVM's recorders do not say that", ". `xray record` notes where calls are left"
	}
	return fact, "unless that is recursion, exceptions or longjmp left them, and " + cause + ". What the thread did next seems to be " +
		"called from there, so durations, callers and depths are wrong" + remedy
}

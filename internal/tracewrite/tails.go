package tracewrite

import "github.com/xray-tools/xray/reader"

// mostGone is the number of tail calls in a row that are followed.
const mostGone = 64

// TailLoop returns which of n open calls, from first to before end, have ended when fn is entered, because they
// have gone on in tail calls that cannot include it: tail calls that form a loop are calls next to each other.
// call returns the function of a call, the outermost first, and whether it has gone on. end_loop in
// recorder/runtime/writer.c is the same rule in C.
func TailLoop(n int, call func(i int) (reader.FuncID, bool), fn reader.FuncID) (first, end int) {
	for i := n - 1; i >= 0; i-- {
		its, gone := call(i)
		if !gone {
			break
		}
		if its != fn && n-i < mostGone {
			continue
		}
		for first = i; first > 0; first-- { // the calls that have gone on in it end, too
			if _, gone := call(first - 1); !gone {
				break
			}
		}
		return first, i + 1
	}
	return n, n
}

package tracegen

import (
	"bufio"
	"fmt"
	"io"
)

var (
	spaces = [...]string{"http", "store", "codec", "index", "auth", "query", "net", "util"}
	types  = [...]string{"Session", "Cache", "Buffer", "Table", "Parser", "Queue", "Writer", "Node", "Token"}
	verbs  = [...]string{"lookup", "parse", "flush", "encode", "append", "compare", "resolve", "evict", "hash", "copy", "validate"}
	params = [...]string{"", "int", "char const*, unsigned long", "std::vector<int, std::allocator<int>> const&"}
)

// Name returns the demangled name of a function of generated traces. Names are
// unique, and look like those of C++.
func Name(id int) string {
	return fmt.Sprintf("%s::%s::%s%d(%s)", spaces[id%len(spaces)], types[id%len(types)],
		verbs[id%len(verbs)], id, params[id%len(params)])
}

// WriteMap writes the instrumentation map of traces with that many functions as
// YAML, as llvm-xray extract prints it.
func WriteMap(w io.Writer, functions int) error {
	if functions == 0 {
		functions = 2000
	}
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "---")
	for id := 1; id <= functions; id++ {
		start := 0x201000 + id*0x80
		for i, k := range [...]string{"function-enter", "function-exit", "tail-exit"} {
			fmt.Fprintf(out, "- { id: %d, address: 0x%X, function: 0x%X, kind: %s, always-instrument: false, function-name: '%s', version: 2 }\n",
				id, start+i*0x30, start, k, Name(id))
		}
	}
	fmt.Fprintln(out, "...")
	if err := out.Flush(); err != nil {
		return fmt.Errorf("write instrumentation map: %w", err)
	}
	return nil
}

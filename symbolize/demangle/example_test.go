package demangle_test

import (
	"fmt"

	"github.com/xray-tools/xray/symbolize/demangle"
)

func ExampleName() {
	name := demangle.Name("_ZN2kv5Store3putEmNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE")
	fmt.Println(name)
	fmt.Println(demangle.Short(name))
	fmt.Println(demangle.Name("main"))
	// Output:
	// kv::Store::put(unsigned long, std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>)
	// kv::Store::put
	// main
}

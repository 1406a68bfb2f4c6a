package args

import (
	"fmt"
	"strings"

	"github.com/xray-tools/xray/symbolize/debuginfo"
)

// typeName returns the name of a type as C++ writes it, without the parts of names of the standard
// library's strings that nobody writes.
func typeName(t *debuginfo.Type) string { return nameOf(t, 0) }

func nameOf(t *debuginfo.Type, depth int) string {
	switch {
	case t == nil:
		return "void"
	case depth > maxNesting:
		return "..."
	}
	elem := func() string { return nameOf(t.Elem(), depth+1) }
	switch t.Kind {
	case debuginfo.KindAlias:
		if t.Name != "" {
			return shortType(t.Name)
		}
		return strings.TrimSpace(t.Qualifier + " " + elem())
	case debuginfo.KindPointer, debuginfo.KindReference:
		mark := "*"
		if t.Kind == debuginfo.KindReference {
			mark = "&"
		}
		if t.Name != "" {
			return t.Name
		}
		if name := elem(); strings.HasSuffix(name, "*") {
			return name + mark
		} else {
			return name + " " + mark
		}
	case debuginfo.KindArray:
		if t.Count < 0 {
			return elem() + "[]"
		}
		return fmt.Sprintf("%s[%d]", elem(), t.Count)
	case debuginfo.KindFunction:
		return "function"
	case debuginfo.KindMemberPointer:
		return "pointer to member"
	}
	if t.Name == "" {
		return "(unnamed)"
	}
	return shortType(t.Name)
}

var shorter = strings.NewReplacer(
	"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >", "std::string",
	"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>", "std::string",
	"std::__cxx11::basic_string<char>", "std::string",
	"std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char> >", "std::string",
	"std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char>>", "std::string",
	"std::basic_string_view<char, std::char_traits<char> >", "std::string_view",
	"std::basic_string_view<char, std::char_traits<char>>", "std::string_view",
	"std::__1::", "std::", "std::__cxx11::", "std::",
)

// shortType shortens the name of a type.
func shortType(name string) string { return shorter.Replace(name) }

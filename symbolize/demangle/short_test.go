package demangle

import "testing"

func TestShort(t *testing.T) {
	for name, want := range map[string]string{
		"main":            "main",
		"#12":             "#12",
		"@(1f2e)":         "@(1f2e)",
		"kv::reject(int)": "kv::reject",
		"void app::f<int, std::vector<int>>(int (*)(char), T const&) const &":                 "app::f",
		"std::vector<int, std::allocator<int>> app::f(std::string)":                           "app::f",
		"app::Store<unsigned char, (unsigned char)99>::put(std::__cxx11::basic_string<char>)": "app::Store::put",
		"app::(anonymous namespace)::hidden(std::string const&)":                              "app::(anonymous namespace)::hidden",
		"std::string[abi:cxx11] f[abi:cxx11](int)":                                            "f",
		"bool app::operator< <int>(app::A<int> const&, app::A<int> const&)":                   "app::operator<",
		"std::ostream& std::operator<<<char>(std::ostream&, char)":                            "std::operator<<",
		"bool app::operator<<int>(app::A<int>, app::A<int>)":                                  "app::operator<",
		"std::ostream& app::operator<<(std::ostream&, app::A const&)":                         "app::operator<<",
		"app::A::operator()(int) const":                                                       "app::A::operator()",
		"app::A::operator->() const":                                                          "app::A::operator->",
		"app::A::operator unsigned int() const":                                               "app::A::operator unsigned int",
		"operator new[](unsigned long)":                                                       "operator new[]",
		`app::operator"" _p(unsigned long long)`:                                              `app::operator"" _p`,
		"main::'lambda'(long, auto)::operator()(long, auto) const":                            "main::'lambda'::operator()",
		"auto f(int)::'lambda'(auto)::operator()<int>(int) const":                             "f::'lambda'::operator()",
		"unsigned long app::g<3ul>(char const volatile* const*)":                              "app::g",
		"decltype(fp(1)) app::decl(int (*)(int, ...), char const volatile* const*)":           "app::decl",
		"void (*app::pick(int))(char)":                                                        "void (*app::pick(int))(char)",
		"app::f(int) (.cold)":                                                                 "app::f (.cold)",
		"non-virtual thunk to app::A<int>::f(int)":                                            "non-virtual thunk to app::A::f",
		"app::A<(1 < 2)>::f()":                                                                "app::A::f",
		"std::function<void (int)>::operator()(int) const":                                    "std::function::operator()",
		"<alloc::vec::Vec<u8> as core::ops::drop::Drop>::drop":                                "<alloc::vec::Vec<u8> as core::ops::drop::Drop>::drop",
		"core::ptr::drop_in_place::<alloc::string::String>":                                   "core::ptr::drop_in_place",
		"shop.cart.Basket.scaled!(long).scaled(long)":                                         "shop.cart.Basket.scaled.scaled",
		"rt.aaA.entry(ref rt.aaA.Impl).copy!(int, 3).copy() const":                            "rt.aaA.entry.copy.copy",
		"std.functional.not!(f(scope void() delegate).lambda)":                                "std.functional.not",
		"foo::bar::{closure#0}":                                                               "foo::bar::{closure#0}",
		"app::f(int) (.llvm.1321)":                                                            "app::f",
		"app::f(int) (.__uniq.12.llvm.34.cold)":                                               "app::f (.cold)",
		"parse.llvm.1321":                                                                     "parse",
		"f(":                                                                                  "f(",
		"":                                                                                    "",
	} {
		if got := Short(name); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, want)
		}
	}
}

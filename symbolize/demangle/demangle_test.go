package demangle

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os/exec"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

func TestDemangle(t *testing.T) {
	for mangled, want := range map[string]string{
		"main":                            "main",
		"_Z3foov":                         "foo()",
		"_ZN1aC1Ev":                       "a::a()",
		"_ZNK1aIiE3getERKS0_":             "a<int>::get(a<int> const&) const",
		"_Z1fIiEvT_RS0_":                  "void f<int>(int, int&)",
		"_Z1fIKiEvRKT_":                   "void f<int const>(int const&)",
		"_Z1fIRiEvOT_":                    "void f<int&>(int&)",
		"_Z3foov.cold":                    "foo() (.cold)",
		"_Z3varPFivE":                     "var(int (*)())",
		"_RNvC3foo3bar":                   "foo::bar",
		"_Dmain":                          "D main",
		"_DYNAMIC":                        "_DYNAMIC",
		"_D4shop4cart6caughtFiZi":         "shop.cart.caught(int)",
		"_ZN3foo3bar17h05af221e174051e9E": "foo::bar",
		"_Zbroken":                        "_Zbroken",
		"_Z1fS_":                          "_Z1fS_",
		"_GLOBAL__sub_I_a.cc":             "_GLOBAL__sub_I_a.cc",
		"__Zoo":                           "__Zoo",
		"Z3foov":                          "Z3foov",
		"":                                "",
	} {
		if got := Name(mangled); got != want {
			t.Errorf("Name(%q) = %q, want %q", mangled, got, want)
		}
	}
}

// Names that were once demangled incorrectly, or that use rare constructs, with the output of
// LLVM's demangler. For Rust's legacy names, the output lacks the hash.
func TestDemangleRegressions(t *testing.T) {
	for mangled, want := range map[string]string{
		"_Z1fIiENSt9enable_ifIXsr3std9is_signedIT_EE5valueENS0_IS1_EEE4typeES1_":              "std::enable_if<std::is_signed<int>::value, std::enable_if<int>>::type f<int>(int)",
		"_Z4hashIjENSt9enable_ifIXsr8is_smallIT_EE5valueEiE4typeERS1_S2_":                     "std::enable_if<is_small<unsigned int>::value, int>::type hash<unsigned int>(unsigned int&, std::enable_if<is_small<unsigned int>::value, int>)",
		"_Z1gIiENSt9enable_ifIXntsr3std7is_sameIT_jEE5valueEvE4typeEPS1_":                     "std::enable_if<!std::is_same<int, unsigned int>::value, void>::type g<int>(int*)",
		"_Z1hIicENSt9enable_ifIXaasr1n1aIT_EE1vntsr1n1bIT0_EE1vEvE4typeES1_S3_":               "std::enable_if<n::a<int>::v && !n::b<char>::v, void>::type h<int, char>(int, std::enable_if<n::a<int>::v && !n::b<char>::v, void>)",
		"_Z1hIicENSt9enable_ifIXoosr1n1aIT_EE1vaasr1n1bIT0_EE1vsr1n1cIS1_EE1vEvE4typeES1_S3_": "std::enable_if<n::a<int>::v || n::b<char>::v && n::c<int>::v, void>::type h<int, char>(int, std::enable_if<n::a<int>::v || n::b<char>::v && n::c<int>::v, void>)",
		"_Z1hIicENSt9enable_ifIXaaoosr1n1aIT_EE1vsr1n1bIT0_EE1vsr1n1cIS1_EE1vEvE4typeES1_S3_": "std::enable_if<(n::a<int>::v || n::b<char>::v) && n::c<int>::v, void>::type h<int, char>(int, std::enable_if<(n::a<int>::v || n::b<char>::v) && n::c<int>::v, void>)",
		"_ZlsIiERSoS0_RK1AIT_E":                               "std::ostream& operator<<<int>(std::ostream&, A<int> const&)",
		"_ZltI1AEbT_S1_":                                      "bool operator<<A>(A, A)",
		"_ZN1AltIiEEbT_":                                      "bool A::operator<<int>(int)",
		"_Z1kIL1E1ELc99ELh7ELN2ns1FEn2EEvv":                   "void k<(E)1, (char)99, (unsigned char)7, (ns::F)-2>()",
		"_ZN1n4make3runEN1AILNS_4kindE2EEE":                   "n::make::run(A<(n::kind)2>)",
		"_RNvNCNvNtCs1234_7my_code4late6PARSER010___CALLSITE": "my_code::late::PARSER::{closure#0}::__CALLSITE",
		"_RNvMs_NtCs1234_7my_code4lateNtB4_5Thing3run":        "<my_code::late::Thing>::run",
		"_ZN3foo3bar17h05af221e174051e9E":                     "foo::bar",
		"_ZN4llvm4yaml7yamlizeIA16_cEENSt9enable_ifIXsr16has_ScalarTraitsIT_EE5valueEvE4typeERNS0_2IOERS4_bRNS0_12EmptyContextE": "std::enable_if<has_ScalarTraits<char [16]>::value, void>::type llvm::yaml::yamlize<char [16]>(llvm::yaml::IO&, char (&) [16], bool, llvm::yaml::EmptyContext&)",
		"_ZL3fooRi.llvm.5057392821431989320.warm":                         "foo(int&) (.llvm.5057392821431989320.warm)",
		"_ZN1n3tabE.llvm.17116070616951602791":                            "n::tab (.llvm.17116070616951602791)",
		"_ZGVZN1n3fooEvE1x":                                               "guard variable for n::foo()::x",
		"_ZThn16_N1n1X1bEv":                                               "non-virtual thunk to n::X::b()",
		"_ZN1n2mpEMNS_1MEKFiiREMS0_iPKMS0_FivEPDoFivEMS0_DoFivOEMS0_A3_i": "n::mp(int (n::M::*)(int) const &, int n::M::*, int (n::M::* const*)(), int (*)() noexcept, int (n::M::*)() && noexcept, int(n::M::*) [3])",
		"_ZN1n3arrERA3_iPA4_iOA5_KcPPFiiERS6_":                            "n::arr(int (&) [3], int (*) [4], char const (&&) [5], int (**)(int), char const (&) [5])",
		"_ZN1n4PackIJicEE1hEPFviEPFvcE":                                   "n::Pack<int, char>::h(void (*)(int), void (*)(char))",
		"_ZN1n4nttpINS_1EELS1_1EEEvv":                                     "void n::nttp<n::E, (n::E)1>()",
		"_ZN1n2ppIXtlNS_1PELi1ELi2EEEEEiv":                                "int n::pp<n::P{1, 2}>()",
		"_ZN1n4ineqILi2EEEiNS_1IIXgtT_Li3EEEENS1_IXrsT_Li1EEEENS1_IXngT_EEENS1_IXquT_Li1ELi2EEEENS1_IXorancoT_Li3EeoLi4ELi2EEEE": "int n::ineq<2>(n::I<(2 > 3)>, n::I<(2 >> 1)>, n::I<-2>, n::I<2 ? 1 : 2>, n::I<~2 & 3 | 4 ^ 2>)",
		"_ZN1n2ddILd3ff8000000000000EEEiv":          "int n::dd<0x1.8p+0>()",
		"_ZN1n4req2IiEET_S1_Qsr3stdE8integralIS1_E": "int n::req2<int>(int) requires std::integral<int>",
		"_ZNSt8optionalI1TE7emplaceIJR1FEEENSt9enable_ifIX18is_constructible_vIS0_DpOT_EERS0_E4typeES5_": "std::enable_if<is_constructible_v<T, F&>, T&>::type std::optional<T>::emplace<F&>(std::enable_if)",
		"_ZN4llvm12_GLOBAL__N_117hGPR_and_tGPREvenE.llvm.5557486451605983456":                            "llvm::(anonymous namespace)::hGPR_and_tGPREven (.llvm.5557486451605983456)",
		"_ZNSsC2EOSsRKSaIcE":           "std::basic_string<char, std::char_traits<char>, std::allocator<char>>::basic_string(std::string&&, std::allocator<char> const&)",
		"_ZN1n4PackIJEE1gIJiEEEvDpOT_": "void n::Pack<>::g<int>(int&&)",
		"_Z1fIJEEvDpPT_i":              "void f<>(int)",
		"_RNcNtNtNtCs8bLOWh93kWr_12rustc_errors8markdown6MdTree6Strong0":                                                                                                          "rustc_errors::markdown::MdTree::Strong",
		"_RNSNvYNCNCNvNtCsbQ5qmPw7Wbv_15rustc_interface6passes8analysis0s_0INtNtNtCs8NwYtU1Mohg_4core3ops8function6FnOnceuE9call_once6vtableBc_":                                  "<rustc_interface::passes::analysis::{closure#0}::{closure#1} as core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}",
		"_RINvNtCs61nHkvlE5qF_9rustc_ast5visit9walk_stmtNtNCNvMNtNtCsaLBsNTKQP2p_11rustc_parse6parser4exprNtBR_6Parser18parse_expr_labeleds_024FindLabeledBreaksVisitorEBT_":      "rustc_ast::visit::walk_stmt::<<rustc_parse::parser::Parser>::parse_expr_labeled::{closure#1}::FindLabeledBreaksVisitor>",
		"_RNvXs7d_NtNtCsgVdDwkt78Uu_4jiff4util8rangeintINtB6_4ri64Knn8000000000000000_Kn7fffffffffffffff_ENtNtCs8NwYtU1Mohg_4core3fmt7Display3fmtBa_":                             "<jiff::util::rangeint::ri64<-9223372036854775808, 9223372036854775807> as core::fmt::Display>::fmt",
		"_RNvNtCsdyGUClYiB0h_15rustc_lint_defs7builtin33UNREACHABLE_CFG_SELECT_PREDICATES":                                                                                        "rustc_lint_defs::builtin::UNREACHABLE_CFG_SELECT_PREDICATES",
		"_RINvNtCs8NwYtU1Mohg_4core3ptr9drop_glueINtNtCsbEht8wFNRx7_5alloc5boxed3BoxDINtNtNtB4_3ops8function6FnOnceuEp6OutputuNtNtB4_6marker4SendEL_EECsi4IsKQVxMg0_3std":         "core::ptr::drop_glue::<alloc::boxed::Box<dyn core::ops::function::FnOnce<(), Output = ()> + core::marker::Send>>",
		"_RNvMs3_NtCsbEht8wFNRx7_5alloc7raw_vecINtB5_6RawVecTOhFUKCBN_EuENtNtCsi4IsKQVxMg0_3std5alloc6SystemE8grow_oneB13_":                                                       "<alloc::raw_vec::RawVec<(*mut u8, unsafe extern \"C\" fn(*mut u8)), std::alloc::System>>::grow_one",
		"_RNvCsrEPza1cO6R_3log5STATE.llvm.4266915826577151458":                                                                                                                    "log::STATE (.llvm.4266915826577151458)",
		"_RNSNvMs8_NtCs8NwYtU1Mohg_4core3numo15overflowing_div5reify":                                                                                                             "<u128>::overflowing_div::{shim:reify#0}",
		"_RINvNtCsgEmfK2I1SDS_4core3ptr13drop_in_placeINtNtCslNYArtu3iFV_5alloc5boxed3BoxDG_INtNtNtB4_3ops8function5FnMutTRL0_eEEp6OutputbEL_EECslKGqiwnqz1t_17rustc_codegen_ssa": "core::ptr::drop_in_place::<alloc::boxed::Box<dyn for<'a> core::ops::function::FnMut<(&'a str,), Output = bool>>>",
		"_RNvYNvNtNtNtCsjrHSEGnQ3l9_3std3sys2fs4unix4statINtNtNtCsgEmfK2I1SDS_4core3ops8function2FnTRNtNtNtBQ_3ffi5c_str4CStrEE4callBa_":                                          "<std::sys::fs::unix::stat as core::ops::function::Fn<(&core::ffi::c_str::CStr,)>>::call",
		"_RNvXsK_NtCseQVuubCcFDg_12simd_adler324hashAhj2e_NtB7_11Adler32Hash4hash":                                                                                                "<[u8; 46] as simd_adler32::Adler32Hash>::hash",
		// LLVM uses the template parameters of another function here, or does not demangle
		// the name.
		"_ZNK1n1McvNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEEv": "n::M::operator std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>() const",
		"_ZZN1n2lmIiEEivENKUlTyTniRAT0__T_E_clIiLi3EEEDaS3_":               "auto int n::lm<int>()::'lambda'<typename $T, int $N>($T (&) [$N])::operator()<int, 3>(int (&) [3]) const",
		"_Z1gIZ1fIiEvT_EUlvE_EvS1_":                                        "void g<void f<int>(int)::'lambda'()>(void f<int>(int)::'lambda'())",
		"_Z1gIZ1fIiEvT_EUlS1_E_EvS1_":                                      "void g<void f<int>(int)::'lambda'(auto)>(void f<int>(int)::'lambda'(auto))",
		"_ZZ3usevENK3$_0clIiJicEEEDaT_DpT0_":                               "auto use()::$_0::operator()<int, int, char>(int, int, char) const",
		"_ZZN1n2lmIdEEivENHUlT_iE_clIS2_EEiS1_i":                           "int int n::lm<double>()::'lambda'(auto, int)::operator()<'lambda'(auto, int)>(this 'lambda'(auto, int), int)",
	} {
		if got := Name(mangled); got != want {
			t.Errorf("Name(%q):\ngot  %s\nwant %s", mangled, got, want)
		}
	}
}

// Long names take milliseconds. Without limits they would take minutes.
func TestDemangleLongNames(t *testing.T) {
	const n = 1 << 18
	for _, name := range []string{
		strings.Repeat("a", n),
		strings.Repeat("a::", n/3),
		strings.Repeat("_", n) + "Z1fv",
		"_Z1f" + strings.Repeat("P", n) + "i",
		"_Z1f" + strings.Repeat("1aI", n/3) + "i",
		"_ZN" + strings.Repeat("1a", n/2) + "17h0123456789abcdefE",
		"_Z1fIX" + strings.Repeat("ng", n/2) + "Li1EEEvv",
		"_Z1f1a" + strings.Repeat("FS_S_E", n/6),
		"_RINvC1a1f" + strings.Repeat("S", n) + "hE",
	} {
		got := Name(name)
		if len(got) > len(name) {
			t.Errorf("%.20s...: got %d bytes, %.40s...", name, len(got), got)
		}
		Short(got)
	}
}

// Names are those of LLVM's demangler, except for names that LLVM refuses and a few that it gets
// wrong: a substitution that stands for a template parameter is that of the function where it is
// used, not where it first appeared.
func TestDemangleLikeLLVM(t *testing.T) {
	for _, c := range []struct {
		library string
		percent float64
	}{
		{"libstdc++.so", 99.9},
		{"libLLVM.so.22.1", 99.8},
		{"libclang-cpp.so.22.1", 99.1},
		{"libclang-cpp.so.14", 99.9},
	} {
		t.Run(c.library, func(t *testing.T) {
			names := libraryNames(t, c.library)
			same, compared := 0, 0
			for i, want := range byLLVM(t, names) {
				if want == names[i] {
					continue
				}
				compared++
				if got := Name(names[i]); got == want {
					same++
				} else if compared-same < 10 {
					t.Logf("%s:\ngot  %s\nLLVM %s", names[i], got, want)
				}
			}
			share := 100 * float64(same) / float64(compared)
			t.Logf("of %d names, %d (%.2f%%) are equal to LLVM's", compared, same, share)
			if compared < 1000 || share < c.percent {
				t.Errorf("want %.1f%% of at least 1000 names", c.percent)
			}
		})
	}
}

// Few names need the library, which is slow and sometimes wrong.
func TestDemangleFast(t *testing.T) {
	names := libraryNames(t, "libstdc++.so")
	fast := 0
	for _, name := range names {
		if _, ok := demangleFast(name); ok {
			fast++
		}
	}
	if len(names) < 1000 || fast < len(names)-len(names)/100 {
		t.Errorf("got %d names, %d of them on the fast path", len(names), fast)
	}
}

// libraryNames returns the C++ function names that a library of the compiler or the system exports.
func libraryNames(t testing.TB, library string) []string {
	t.Helper()
	testenv.Need(t, "clang++-22")
	path, err := exec.Command("clang++-22", "-print-file-name="+library).Output()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(strings.TrimSpace(string(path)))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip(library + " is not installed")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range symbols {
		if strings.HasPrefix(s.Name, "_Z") && elf.ST_TYPE(s.Info) == elf.STT_FUNC && s.Section != elf.SHN_UNDEF {
			names = append(names, s.Name)
		}
	}
	return names
}

func FuzzDemangle(f *testing.F) {
	f.Add("_ZN3foo3barIiEEvT_")
	f.Add("_ZNK1aIiLi3ELb1EE3getERKS0_PVKcO1b")
	f.Add("_Z1fIJidEEvDpRKT_PFvS0_EA3_M1AFiiE")
	f.Add("_ZZ1fIiEDaT_ENKUlTyS0_DpT_E0_clIcJdEEES0_S1_.cold")
	f.Add("_ZN1AC2IiTnNSt9enable_ifIXaasr1bIT_EE1vgtstS2_Li4EEbE4typeELb1EEEDTcl1gfp_EE")
	f.Add("_Z1aIXtlN1nELd3ff8000000000000EcvT_fL0p_nw_iEEEvu4__isIiE")
	f.Add("_Z01AALf0")
	f.Add("_RNvC3foo3bar")
	f.Add("_RINvMs_NtC1a1bNtB4_1C3runNCNvXs0_NtB6_1dTlEFG_UKCRL0_eEuDNtB6_1ep1fjEL_AhKj4_00uKn2_B5_E.llvm.1")
	f.Add("_D3std10functional__T3notSQy6format__T7sformatTaTykVAyaa2_6b5dVdeN8Pi2ZQxFNkMAaMDFNbPvQcZvZ4SinkTaZQDgFKQComZ10__lambda16Z__TQGxTwZQHdMxFNaNbNiNfwHAyaG3Nh_Zb")
	f.Fuzz(func(t *testing.T, name string) {
		Short(Name(name))
		if got, ok := demangleFast(name); ok {
			if part, ok := demangleFast(name + ".part"); !strings.Contains(name, ".") && (!ok || part != got+" (.part)") {
				t.Errorf("%q: got %q, and with .part %q", name, got, part)
			}
			if !strings.ContainsAny(name, "()") && strings.Count(strings.ReplaceAll(got, "operator()", ""), "(") != strings.Count(strings.ReplaceAll(got, "operator()", ""), ")") {
				t.Errorf("%q: got %q with unbalanced parentheses", name, got)
			}
		}
	})
}

func BenchmarkDemangle(b *testing.B) {
	const name = "_ZNK4app06Store6IiLi83EE3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
	for _, c := range []struct {
		name string
		f    func(string) string
	}{
		{"path=fast", Name}, {"path=full", demangleFully},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.f(name)
			}
		})
	}
}

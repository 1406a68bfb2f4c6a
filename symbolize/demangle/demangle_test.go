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
		"_ZlsIiERSoS0_RK1AIT_E":                        "std::ostream& operator<<<int>(std::ostream&, A<int> const&)",
		"_ZltI1AEbT_S1_":                               "bool operator<<A>(A, A)",
		"_ZN1AltIiEEbT_":                               "bool A::operator<<int>(int)",
		"_Z1kIL1E1ELc99ELh7ELN2ns1FEn2EEvv":            "void k<(E)1, (char)99, (unsigned char)7, (ns::F)-2>()",
		"_ZN1n4make3runEN1AILNS_4kindE2EEE":            "n::make::run(A<(n::kind)2>)",
		"_RNvMs_NtCs1234_7my_code4lateNtB4_5Thing3run": "<my_code::late::Thing>::run",
		"_ZN3foo3bar17h05af221e174051e9E":              "foo::bar",
		"_ZL3fooRi.llvm.5057392821431989320.warm":      "foo(int&) (.llvm.5057392821431989320.warm)",
		"_ZN1n3tabE.llvm.17116070616951602791":         "n::tab (.llvm.17116070616951602791)",
		"_ZGVZN1n3fooEvE1x":                            "guard variable for n::foo()::x",
		"_ZThn16_N1n1X1bEv":                            "non-virtual thunk to n::X::b()",
		"_ZN1n3arrERA3_iPA4_iOA5_KcPPFiiERS6_":         "n::arr(int (&) [3], int (*) [4], char const (&&) [5], int (**)(int), char const (&) [5])",
		"_ZN1n4PackIJicEE1hEPFviEPFvcE":                "n::Pack<int, char>::h(void (*)(int), void (*)(char))",
		"_ZN1n4nttpINS_1EELS1_1EEEvv":                  "void n::nttp<n::E, (n::E)1>()",
		"_ZN1n2ppIXtlNS_1PELi1ELi2EEEEEiv":             "int n::pp<n::P{1, 2}>()",
		"_ZN1n4ineqILi2EEEiNS_1IIXgtT_Li3EEEENS1_IXrsT_Li1EEEENS1_IXngT_EEENS1_IXquT_Li1ELi2EEEENS1_IXorancoT_Li3EeoLi4ELi2EEEE": "int n::ineq<2>(n::I<(2 > 3)>, n::I<(2 >> 1)>, n::I<-2>, n::I<2 ? 1 : 2>, n::I<~2 & 3 | 4 ^ 2>)",
		"_ZN4llvm12_GLOBAL__N_117hGPR_and_tGPREvenE.llvm.5557486451605983456":                                                    "llvm::(anonymous namespace)::hGPR_and_tGPREven (.llvm.5557486451605983456)",
		"_ZNSsC2EOSsRKSaIcE":           "std::basic_string<char, std::char_traits<char>, std::allocator<char>>::basic_string(std::string&&, std::allocator<char> const&)",
		"_ZN1n4PackIJEE1gIJiEEEvDpOT_": "void n::Pack<>::g<int>(int&&)",
		"_Z1fIJEEvDpPT_i":              "void f<>(int)",
		"_RNSNvYNCNCNvNtCsbQ5qmPw7Wbv_15rustc_interface6passes8analysis0s_0INtNtNtCs8NwYtU1Mohg_4core3ops8function6FnOnceuE9call_once6vtableBc_":                                  "<rustc_interface::passes::analysis::{closure#0}::{closure#1} as core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}",
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

// Names are those of LLVM's demangler, except for names that LLVM refuses and those in testdata/library.txt.
// As [Short] shows them, nearly all are.
func TestDemangleLikeLLVM(t *testing.T) {
	for _, c := range []struct {
		library        string
		percent, short float64
	}{
		{"libstdc++.so", 99.9, 100},
		{"libLLVM.so.22.1", 99.1, 100},
		{"libclang-cpp.so.22.1", 99, 100},
		{"libclang-cpp.so.14", 99.8, 100},
		{"librustc_driver", 99, 99},
	} {
		t.Run(c.library, func(t *testing.T) {
			t.Parallel()
			names := rustNames
			if c.library != "librustc_driver" {
				names = func(t *testing.T) []string { return libraryNames(t, c.library) }
			}
			list := names(t)
			same, short, compared := 0, 0, 0
			for i, want := range byLLVM(t, list) {
				if want == list[i] {
					continue
				}
				compared++
				got := Name(list[i])
				if got == want {
					same++
				}
				if Short(got) == Short(want) {
					short++
				} else if compared-short < 10 {
					t.Logf("%s:\ngot  %s\nLLVM %s", list[i], got, want)
				}
			}
			t.Logf("of %d names, %d are equal to LLVM's, and %d of short names", compared, same, short)
			if compared < 1000 || float64(100*same) < c.percent*float64(compared) || float64(100*short) < c.short*float64(compared) {
				t.Errorf("want %.1f%% and %.1f%% of at least 1000 names", c.percent, c.short)
			}
		})
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
	})
}

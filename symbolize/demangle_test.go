package symbolize

import (
	"debug/elf"
	"os/exec"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/testenv"
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
		"_ZN3foo3bar17h05af221e174051e9E": "foo::bar",
		"_Zbroken":                        "_Zbroken",
		"_Z1fS_":                          "_Z1fS_",
		"_GLOBAL__sub_I_a.cc":             "_GLOBAL__sub_I_a.cc",
		"__Zoo":                           "__Zoo",
		"Z3foov":                          "Z3foov",
		"":                                "",
	} {
		if got := Demangle(mangled); got != want {
			t.Errorf("Demangle(%q) = %q, want %q", mangled, got, want)
		}
	}
}

// Names that were wrong once, with what LLVM's demangler says of them; of Rust's
// legacy names, without the hash.
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
	} {
		if got := Demangle(mangled); got != want {
			t.Errorf("Demangle(%q)\nis  %s\nnot %s", mangled, got, want)
		}
	}
}

// Names are those that LLVM's demangler gives, but for those it does not take, and few
// on which it is wrong: where a lambda is part of the name, it takes the template
// parameters of the function around it for those of the function.
func TestDemangleLikeLLVM(t *testing.T) {
	testenv.Need(t, "llvm-cxxfilt-22")
	names := libraryNames(t)
	cmd := exec.Command("llvm-cxxfilt-22")
	cmd.Stdin = strings.NewReader(strings.Join(names, "\n"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	same, compared := 0, 0
	for i, want := range strings.Split(strings.TrimSuffix(string(out), "\n"), "\n") {
		if want == names[i] {
			continue
		}
		compared++
		if got := Demangle(names[i]); got == want {
			same++
		} else if compared-same < 10 {
			t.Logf("%s\nis       %s\nand LLVM %s", names[i], got, want)
		}
	}
	if compared < 1000 || same < compared-compared/200 {
		t.Errorf("of %d names %d are as LLVM has them", compared, same)
	}
}

// libraryNames are the names of the C++ functions of the standard library.
func libraryNames(t *testing.T) []string {
	t.Helper()
	f, err := elf.Open(strings.TrimSpace(run(t, "clang++-22", "-print-file-name=libstdc++.so")))
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
		if strings.HasPrefix(s.Name, "_Z") && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
			names = append(names, s.Name)
		}
	}
	return names
}

// The fast demangler agrees with the full one wherever it does not give up, on
// all the names that a C++ program and its libraries have.
func TestDemangleFast(t *testing.T) {
	path := compile(t, program, variants[0].args...)
	names := make(map[string]bool)
	for _, p := range []string{path, strings.TrimSpace(run(t, "clang++-22", "-print-file-name=libstdc++.so"))} {
		f, err := elf.Open(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		static, _ := f.Symbols()
		dynamic, _ := f.DynamicSymbols()
		for _, s := range append(static, dynamic...) {
			if strings.HasPrefix(s.Name, "_Z") && elf.ST_TYPE(s.Info) == elf.STT_FUNC {
				names[s.Name] = true
			}
		}
	}
	fast := 0
	for name := range names {
		got, ok := demangleFast(name)
		if !ok || strings.Contains(name, "Xsr") {
			continue // the full one counts some substitutions of clang twice
		}
		fast++
		if want := demangleFully(name); got != want {
			t.Errorf("%s\nis   %s\nnot  %s", name, want, got)
		}
	}
	if len(names) < 1000 || fast < len(names)/2 {
		t.Errorf("%d names, of them %d fast", len(names), fast)
	}
}

func FuzzDemangle(f *testing.F) {
	f.Add("_ZN3foo3barIiEEvT_")
	f.Add("_ZNK1aIiLi3ELb1EE3getERKS0_PVKcO1b")
	f.Add("_RNvC3foo3bar")
	f.Fuzz(func(t *testing.T, name string) {
		Demangle(name)
		if len(name) > 1000 {
			return
		}
		// Names that no compiler makes may be taken by only one of the two; if the
		// full demangler takes one, they agree. It counts some substitutions twice in
		// conditions with names that clang mangles (sr), and does not put parentheses.
		Shorten(Demangle(name))
		if strings.Contains(name, "X") {
			return
		}
		got, ok := demangleFast(name)
		if want := demangleFully(name); ok && want != name && got != want {
			t.Errorf("%q is %q, not %q", name, want, got)
		}
	})
}

func BenchmarkDemangle(b *testing.B) {
	const name = "_ZNK4app06Store6IiLi83EE3getERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
	for _, c := range []struct {
		name string
		f    func(string) string
	}{
		{"path=fast", Demangle}, {"path=full", demangleFully},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.f(name)
			}
		})
	}
}

package symbolize

import (
	"debug/elf"
	"strings"
	"testing"
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
		if !ok {
			continue
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
		// full demangler takes one, they agree.
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

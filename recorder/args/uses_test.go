package args

import (
	"fmt"
	"slices"
	"testing"
)

// Instructions of AVX read what those of SSE do, and their second operand.
func TestUsesOfVEX(t *testing.T) {
	for _, test := range []struct {
		name, code       string
		general, vectors []int // that are read, by their numbers
	}{
		{"vmovsd [rsp-8], xmm3", "\xc5\xfb\x11\x5c\x24\xf8", []int{7}, []int{3}},
		{"vaddsd xmm0, xmm1, xmm2", "\xc5\xf3\x58\xc2", nil, []int{1, 2}},
		{"vaddsd xmm1, xmm0, xmm0", "\xc5\xfb\x58\xc8", nil, nil}, // as if it set zero, which others do
		{"vxorps xmm0, xmm0, xmm0; vmovaps xmm1, xmm0", "\xc5\xf8\x57\xc0\xc5\xf8\x28\xc8", nil, nil},
		{"vxorps xmm9, xmm9, xmm9; vmovaps xmm1, xmm2", "\xc4\x41\x30\x57\xc9\xc5\xf8\x28\xca", nil, []int{2}},
		{"vcvtsi2sd xmm0, xmm5, edi", "\xc5\xd3\x2a\xc7", []int{5}, nil},
		{"vmovups ymm0, [rdi]; vmovaps xmm1, xmm0", "\xc5\xfc\x10\x07\xc5\xf8\x28\xc8", []int{5}, nil},
		{"vaddsd xmm0, xmm1, [r9]", "\xc4\xc1\x73\x58\x01", []int{9}, []int{1}},
		{"vzeroupper; mov eax, esi", "\xc5\xf8\x77\x89\xf0", []int{4}, nil},
		{"vfmadd213sd xmm0, xmm1, xmm2; mov eax, esi", "\xc4\xe2\xf1\xa9\xc2\x89\xf0", nil, nil}, // it ends the walk
	} {
		u := usesOf([]byte(test.code), 0)
		var general, vectors []int
		for i := range 16 {
			if u.general[i] {
				general = append(general, i)
			}
			if u.vectors[i] {
				vectors = append(vectors, i)
			}
		}
		if !slices.Equal(general, test.general) || !slices.Equal(vectors, test.vectors) {
			t.Errorf("%s: reads general registers %v and vectors %v, want %v, %v", test.name, general, vectors, test.general, test.vectors)
		}
	}
}

// What is read of code is the same for code that follows a prologue that does nothing.
func FuzzUses(f *testing.F) {
	f.Add([]byte("\xc5\xf3\x58\xc2\xc4\xc1\x73\x58\x01\x55\x48\x89\xe5\xc3"))
	f.Add([]byte("\xc4"))
	f.Fuzz(func(t *testing.T, code []byte) {
		if len(code) > maxUsesCode {
			return
		}
		u := usesOf(code, 0)
		for i, to := range u.kept[1] {
			if to > uint64(len(code)) {
				t.Errorf("xmm%d is kept for %d bytes of %d", i, to, len(code))
			}
		}
		shifted := usesOf(append([]byte("\x90\x90"), code...), 2)
		if fmt.Sprint(u.general, u.vectors, u.stack) != fmt.Sprint(shifted.general, shifted.vectors, shifted.stack) {
			t.Error("other uses behind a prologue")
		}
	})
}

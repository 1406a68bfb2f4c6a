package main

import (
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// compile makes an instrumented program with this many functions and debug information, with clang
// 22, and returns its path.
func compile(dir string, functions int) (string, error) {
	clang, err := exec.LookPath("clang++-22")
	if err != nil {
		return "", err
	}
	parts := runtime.NumCPU()
	objects := make([]string, parts)
	errs := make([]error, parts)
	var wg sync.WaitGroup
	for part := range parts {
		from, to := functions*part/parts, functions*(part+1)/parts
		objects[part] = filepath.Join(dir, fmt.Sprintf("part%d.o", part))
		wg.Go(func() {
			source := filepath.Join(dir, fmt.Sprintf("part%d.cc", part))
			if errs[part] = create(source, func(w io.Writer) error { return writeSource(w, from, to) }); errs[part] != nil {
				return
			}
			errs[part] = command(clang, "-O0", "-g", "-fxray-instrument", "-fxray-instruction-threshold=1", "-c", source, "-o", objects[part])
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return "", err
		}
	}
	binary := filepath.Join(dir, "many")
	args := append([]string{"-fxray-instrument", "-o", binary}, objects...)
	return binary, command(clang, args...)
}

// writeSource writes functions in a few namespaces, with names to demangle.
func writeSource(w io.Writer, from, to int) error {
	var b bytes.Buffer
	b.WriteString("template <class T> struct Buffer { T *data; unsigned long size; };\n")
	for i := from; i < to; i++ {
		fmt.Fprintf(&b, "namespace part%d {\nlong handle%d(const Buffer<long> &in, long n) {\n  return n + (long)in.size;\n}\n}\n", i%50, i)
	}
	if from == 0 {
		b.WriteString("int main() { return 0; }\n")
	}
	_, err := w.Write(b.Bytes())
	return err
}

func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, out)
	}
	return nil
}

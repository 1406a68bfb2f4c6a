package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	dir := t.TempDir()
	trace, instrMap, counts := filepath.Join(dir, "t.xray"), filepath.Join(dir, "m.yaml"), filepath.Join(dir, "c.csv")
	args := []string{"-format", "basic", "-records", "1000", "-threads", "2", "-functions", "100", "-map", instrMap, "-counts", counts}
	if err := run(append(args, "-o", trace), nil, io.Discard); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if n := len(read(trace)); n != 32+1000*32 {
		t.Errorf("got a trace of %d bytes", n)
	}
	if n := bytes.Count(read(instrMap), []byte("kind: function-enter")); n != 100 {
		t.Errorf("got a map of %d functions", n)
	}
	if c := string(read(counts)); !strings.HasPrefix(c, "id,entries,calls,ticks\n") || strings.Count(c, "\n") < 10 {
		t.Errorf("wrong counts: %q", c)
	}
	var stdout bytes.Buffer
	if err := run(args, &stdout, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(stdout.Bytes(), read(trace)) {
		t.Error("standard output and file differ")
	}
}

func TestRunErrors(t *testing.T) {
	for _, args := range [][]string{
		{"-format", "xml"}, {"-bogus"}, {"extra"}, {"-o", t.TempDir()}, {"-records", "10", "-o", filepath.Join(t.TempDir(), "no", "dir")},
	} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

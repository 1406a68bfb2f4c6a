package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// writeManyThreads writes an FDR log of threads that live one after another. Each has a block with
// two calls.
func writeManyThreads(t *testing.T, threads int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "many.xray")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	le := binary.LittleEndian
	head := make([]byte, 32)
	le.PutUint16(head, 5)
	le.PutUint16(head[2:], 1)
	le.PutUint32(head[4:], 3)
	le.PutUint64(head[8:], 1e9)
	block := head
	metadata := func(kind byte, fields ...byte) {
		block = append(block, kind<<1|1)
		block = append(append(block, fields...), make([]byte, 15-len(fields))...)
	}
	for i := range threads {
		tsc := 1e9 + uint64(i)*400
		metadata(7, 96)
		metadata(0, le.AppendUint32(nil, uint32(i+1))...)
		metadata(4, le.AppendUint32(le.AppendUint64(nil, tsc/1e9), uint32(tsc%1e9/1e3))...)
		metadata(9, 77)
		metadata(2, le.AppendUint64([]byte{0, 0}, tsc)...)
		for k, word := range []uint32{1 << 4, 2 << 4, 2<<4 | 2, 1<<4 | 2} {
			block = le.AppendUint32(le.AppendUint32(block, word), uint32(min(k, 1)*100))
		}
		if _, err := w.Write(block); err != nil {
			t.Fatal(err)
		}
		block = block[:0]
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func init() { commands["measured"] = measured }

// measured is a program that runs another one and writes its peak resident memory in KB to a file:
//
//	measured FILE PROGRAM [ARGUMENT...]
//
// A process starts with the peak of the process that forked it: Linux keeps it across exec. The
// test process may be large by then. This program is small.
func measured() {
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	peak := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	if err := os.WriteFile(os.Args[1], fmt.Append(nil, peak), 0o666); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// Memory is bounded when there are many threads. Threads that ended take little memory, and
// commands that need much for each thread refuse the trace.
func TestMemoryOfManyThreads(t *testing.T) {
	const threads, limit = 300_000, 320 << 10 // KB
	trace := writeManyThreads(t, threads)
	for _, test := range []struct {
		args    string
		refused bool
	}{
		{"account", false},
		{"convert -f raw -o /dev/null", false},
		{"convert -f yaml -o /dev/null", false},
		{"convert -f yaml -o /dev/null --thread 5", false},
		{"account --per-thread --thread 5", false},
		{"account --per-thread", true},
		{"stack --per-thread", true},
		{"convert -f pprof --per-thread -o /dev/null", true},
		{"convert -f perfetto -o /dev/null", true},
		{"convert -f firefox -o /dev/null", true},
		{"residency", true},
	} {
		t.Run(test.args, func(t *testing.T) {
			peak := filepath.Join(t.TempDir(), "peak")
			cmd := exec.Command("measured", append(append([]string{peak, "xray"}, strings.Fields(test.args)...), trace)...)
			out, err := cmd.CombinedOutput()
			measured, readErr := os.ReadFile(peak)
			if readErr != nil {
				t.Fatalf("%v: %v: %s", readErr, err, out)
			}
			rss, parseErr := strconv.Atoi(string(measured))
			if parseErr != nil {
				t.Fatal(parseErr)
			}
			if rss <= 0 || rss > limit {
				t.Errorf("got %d KB resident, want at most %d", rss, limit)
			}
			text := string(out)
			if !test.refused {
				if err != nil {
					t.Errorf("%v: %s", err, text)
				}
				return
			}
			for _, want := range []string{trace, "(300000)", "131072", "--thread"} {
				if err == nil || !strings.Contains(text, want) {
					t.Errorf("%v: got %q, want %q in it", err, text, want)
				}
			}
		})
	}
}

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

	"github.com/xray-tools/xray/reader"
)

// writeManyThreads writes an FDR log of threads that live one after another. Each has a block with
// two calls.
func writeManyThreads(t *testing.T, threads int) string {
	return writeThreads(t, threads, []uint32{1 << 4, 2 << 4, 2<<4 | 2, 1<<4 | 2})
}

// writeThreads writes an FDR log of threads that live one after another. Each has a block with
// records, which are given by their first words.
func writeThreads(t *testing.T, threads int, records []uint32) string {
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
		metadata(7, le.AppendUint64(nil, uint64(64+8*len(records)))...)
		metadata(0, le.AppendUint32(nil, uint32(i+1))...)
		metadata(4, le.AppendUint32(le.AppendUint64(nil, tsc/1e9), uint32(tsc%1e9/1e3))...)
		metadata(9, 77)
		metadata(2, le.AppendUint64([]byte{0, 0}, tsc)...)
		for k, word := range records {
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

// No command takes 500 MB for a trace that compresses to a megabyte. Threads take the most memory. The
// test has as many as are allowed, and checks that xray refuses more.
func TestMemoryOfManyThreads(t *testing.T) {
	const limit = 500 << 10 // KB
	allowed := writeManyThreads(t, reader.DefaultMaxThreads)
	more := writeManyThreads(t, reader.DefaultMaxThreads+1)
	raised := []string{"--max-threads", strconv.Itoa(reader.DefaultMaxThreads + 1)}
	for i, command := range []string{
		"account --per-thread", "stack --per-thread", "why --root .", "residency --format json", "alloc", "html",
		"convert -f yaml", "convert -f perfetto", "convert -f folded --per-thread",
	} {
		t.Run(command, func(t *testing.T) {
			args := append(strings.Fields(command), "-o", os.DevNull)
			out, rss, err := measure(t, append(args, allowed)...)
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
			if rss <= 0 || rss > limit {
				t.Errorf("got %d KB resident, want at most %d", rss, limit)
			}
			if i%3 != 0 {
				return // the reader refuses for all commands alike
			}
			out, rss, err = measure(t, append(args, more)...)
			if err == nil || rss > limit/4 {
				t.Errorf("%d KB resident for a thread too many, error %v", rss, err)
			}
			for _, want := range []string{more, " 131072 threads", "--max-threads"} {
				if !strings.Contains(out, want) {
					t.Errorf("%q has no %q", out, want)
				}
			}
		})
	}
	if out, _, err := measure(t, append(raised, "account", more)...); err != nil || !strings.Contains(out, "262,146 calls") {
		t.Errorf("%v: %s", err, out)
	}
}

// No command takes 500 MB for many threads with many functions each, in a trace that compresses to
// less than a megabyte. Where there are too many for it, the error says what to do.
func TestMemoryOfThreadsAndFunctions(t *testing.T) {
	const limit = 500 << 10 // KB
	var records []uint32
	for fn := range uint32(40) {
		records = append(records, (fn+1)<<4, (fn+1)<<4|2)
	}
	trace := writeThreads(t, 1<<16, records)
	for _, test := range []struct {
		command string
		refused bool
	}{
		{"account", false},
		{"stack", false},
		{"account --per-thread", true},
		{"residency", true},
		{"convert -f perfetto", true},
		{"convert -f pprof --per-thread", true},
		{"stack --per-thread", false},
	} {
		t.Run(test.command, func(t *testing.T) {
			args := append(strings.Fields(test.command), "-o", os.DevNull, trace)
			out, rss, err := measure(t, args...)
			if rss <= 0 || rss > limit {
				t.Errorf("got %d KB resident, want at most %d", rss, limit)
			}
			if says := strings.Contains(out, "--table-memory"); says != test.refused || (err != nil) != test.refused {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

// Open calls take memory, and a slice has to end each of them.
func TestMemoryOfOpenCalls(t *testing.T) {
	records := make([]uint32, 4<<20)
	for i := range records {
		records[i] = uint32(i%1000+1) << 4
	}
	trace := writeThreads(t, 1, records)
	out, kb, err := measure(t, "slice", "--from", "0s", "-o", filepath.Join(t.TempDir(), "slice.xray"), trace)
	if err == nil || !strings.Contains(out, "--table-memory") || kb > 500<<10 {
		t.Errorf("%v, %d KB resident: %s", err, kb, out)
	}
	trace = writeThreads(t, 1<<16, records[:64])
	for _, format := range []string{"chrome", "perfetto"} {
		out, kb, err := measure(t, "convert", "-f", format, "--max-size", "50M", "-o", os.DevNull, trace)
		if refused := strings.Contains(out, "--table-memory"); refused != (err != nil) || kb > 500<<10 {
			t.Errorf("%s: %v, %d KB resident: %s", format, err, kb, out)
		}
	}
}

// measure runs the program, and returns its output and how many KB it had resident at most.
func measure(t *testing.T, args ...string) (output string, kb int, err error) {
	t.Helper()
	peak := filepath.Join(t.TempDir(), "peak")
	out, err := exec.Command("measured", append([]string{peak, "xray"}, args...)...).CombinedOutput()
	measured, readErr := os.ReadFile(peak)
	if readErr != nil {
		t.Fatalf("%v: %v: %s", readErr, err, out)
	}
	kb, parseErr := strconv.Atoi(string(measured))
	if parseErr != nil {
		t.Fatal(parseErr)
	}
	return string(out), kb, err
}

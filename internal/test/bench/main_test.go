package main

import (
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain makes the test program a program to measure: called with an argument of its own, it
// succeeds or fails.
func TestMain(m *testing.M) {
	switch os.Getenv("BENCH_TEST_CHILD") {
	case "":
		os.Exit(m.Run())
	case "check":
		if slices.Contains(os.Args, "print") {
			io.WriteString(os.Stdout, strings.Repeat("y", 2*1234567))
			os.Exit(0)
		}
		if slices.Contains(os.Args, "break") {
			io.WriteString(os.Stderr, "cannot|do\nsecond line\n")
			os.Exit(1)
		}
	}
}

func TestMeasureJob(t *testing.T) {
	t.Setenv("BENCH_TEST_CHILD", "check")
	programs := []program{{"xray, 1 core", os.Args[0], 1}, {"peer", os.Args[0], 0}}
	for _, tt := range []struct {
		name   string
		job    job
		rows   []string // expressions that the rows match
		failed string   // part of the error
	}{
		{
			name: "both", job: job{ours: []string{"ok"}, theirs: []string{"ok"}},
			rows: []string{`xray, 1 core \| \d+\.\d{3} \| \d+\.\d{3} \| \d+ \| \d+\.\d\d \| \d+\.\d\d \| \d+\.\d \| \d+\.\d \|  \|$`, `peer \| \d+\.\d{3} .*\|  \|  \|  \|$`},
		},
		{
			name: "ours alone", job: job{ours: []string{"ok"}},
			rows: []string{`xray, 1 core \| \d+\.\d{3} .*\|  \|  \|  \|$`},
		},
		{
			name: "output", job: job{ours: []string{"print"}, theirs: []string{"ok"}, outputs: true},
			rows: []string{`\| 2\.0 \|$`, `\| 0\.0 \|$`},
		},
		{
			name: "peer fails", job: job{ours: []string{"ok"}, theirs: []string{"break"}},
			rows: []string{`xray, 1 core \| \d+\.\d{3} .*\|  \|  \|  \|$`, `peer \| exit status 1: cannot/do \|{8}$`},
		},
		{
			name: "ours fails", job: job{ours: []string{"break"}, theirs: []string{"ok"}},
			rows:   []string{`xray, 1 core \| exit status 1: cannot/do \|{8}$`, `peer \| \d+\.\d{3} .*\|  \|  \|  \|$`},
			failed: "account: exit status 1: cannot|do",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.job.name, tt.job.format, tt.job.records, tt.job.unit = "account", "fdr", 1234567, "records"
			var out strings.Builder
			err := measureJob(&out, tt.job, programs, 3)
			if (err == nil) != (tt.failed == "") || err != nil && !strings.Contains(err.Error(), tt.failed) {
				t.Errorf("got error %v, want %q", err, tt.failed)
			}
			rows := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if len(rows) != len(tt.rows) {
				t.Fatalf("got %d rows, want %d:\n%s", len(rows), len(tt.rows), &out)
			}
			for i, want := range tt.rows {
				want = `^\| account \| fdr \| 1 234 567 records \| .*` + want
				if !regexp.MustCompile(want).MatchString(rows[i]) {
					t.Errorf("row %q does not match %q", rows[i], want)
				}
			}
		})
	}
}

func TestMedian(t *testing.T) {
	costs := []cost{{wall: 9 * time.Second}, {wall: time.Second}, {wall: 2 * time.Second}}
	if got := median(costs, cost.wallSeconds); got != 2 {
		t.Errorf("median of 9, 1, 2 = %v", got)
	}
	if got := median(costs[:2], cost.wallSeconds); got != 5 {
		t.Errorf("median of 9, 1 = %v", got)
	}
}

func TestParseSizes(t *testing.T) {
	for _, tt := range []struct {
		in, env string
		want    []int64 // nil: an error
	}{
		{"", "", []int64{1e6, 1e7}},
		{"", "full", []int64{1e6, 1e7, 5e7}},
		{"5,2000", "full", []int64{5, 2000}},
		{"5,", "", nil},
		{"-1", "", nil},
		{"1M", "", nil},
	} {
		t.Setenv("BENCH", tt.env)
		got, err := parseSizes(tt.in)
		if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) {
			t.Errorf("parseSizes(%q) with BENCH=%q = %v, %v, want %v", tt.in, tt.env, got, err, tt.want)
		}
	}
}

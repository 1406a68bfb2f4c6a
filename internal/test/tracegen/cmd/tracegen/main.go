// Tracegen writes a generated XRay trace; see the package tracegen.
//
//	go run ./internal/test/tracegen/cmd/tracegen -format fdr -records 50000000 -o big.xray
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/xray-tools/xray/internal/test/tracegen"
)

func main() {
	if err := run(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		fmt.Fprintln(os.Stderr, "tracegen:", err)
		os.Exit(1)
	}
}

func run(args []string, stdout, stderr io.Writer) error {
	var opts tracegen.Options
	flags := flag.NewFlagSet("tracegen", flag.ContinueOnError)
	flags.SetOutput(stderr)
	format := flags.String("format", "fdr", "fdr, basic or yaml")
	flags.Uint64Var(&opts.Seed, "seed", 1, "seed of the generator")
	flags.Uint64Var(&opts.Run, "run", 0, "number of the run: each serves other requests of the program of the seed")
	flags.Int64Var(&opts.Records, "records", 1_000_000, "number of entries and exits")
	flags.IntVar(&opts.Threads, "threads", 16, "number of threads")
	flags.IntVar(&opts.Functions, "functions", 2000, "number of functions")
	flags.BoolVar(&opts.Open, "open", false, "end in the middle of calls")
	flags.BoolVar(&opts.Unwind, "unwind", false, "leave some calls by exceptions, without an exit record")
	flags.BoolVar(&opts.Random, "random", false, "draw each callee from all functions, so that hardly a call path comes twice")
	flags.BoolVar(&opts.Spread, "spread", false, "spread the durations of each function over six decades")
	output := flags.String("o", "-", "write the trace to this file, - for standard output")
	instrMap := flags.String("map", "", "write an instrumentation map as YAML to this file")
	counts := flags.String("counts", "", "write a CSV of the calls per function to this file")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	opts.Format = tracegen.Format(*format)

	var truth *tracegen.Truth
	err := writeTo(*output, stdout, func(w io.Writer) (err error) {
		truth, err = tracegen.Generate(w, opts)
		return err
	})
	if err != nil {
		return err
	}
	if *instrMap != "" {
		if err := writeTo(*instrMap, stdout, func(w io.Writer) error {
			return tracegen.WriteMap(w, opts.Functions)
		}); err != nil {
			return err
		}
	}
	if *counts != "" {
		return writeTo(*counts, stdout, func(w io.Writer) error { return writeCounts(w, truth) })
	}
	return nil
}

// writeCounts writes, for each function that was called, how many entries it
// has, how many of those calls have an exit, and their total duration in ticks.
func writeCounts(w io.Writer, truth *tracegen.Truth) error {
	out := bufio.NewWriter(w)
	fmt.Fprintln(out, "id,entries,calls,ticks")
	for id, n := range truth.Entries {
		if n > 0 {
			fmt.Fprintf(out, "%d,%d,%d,%d\n", id, n, truth.Calls[id], truth.Ticks[id])
		}
	}
	return out.Flush()
}

// writeTo calls write with the named file or, for "-", stdout.
func writeTo(name string, stdout io.Writer, write func(io.Writer) error) error {
	if name == "-" {
		return write(stdout)
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}

// Package ctl does what the commands of xray ctl ask of the recorder of a running process.
package ctl

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/xray-tools/xray/cmd/xray/internal/cli"
	"github.com/xray-tools/xray/cmd/xray/internal/launch"
	"github.com/xray-tools/xray/cmd/xray/internal/session"
	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/observe"
	"github.com/xray-tools/xray/report/label"
	"github.com/xray-tools/xray/symbolize"
)

// Control is one run of xray ctl. Flags fill the exported fields.
type Control struct {
	launch.Plan
	session.StyleFlags
	Last   time.Duration // of the rings, for a snapshot; 0 for all
	Reset  bool          // reset the counters
	Format string        // text or json

	Process *client.Process
	Args    []string // after the command
}

// Modes are the arguments of the command mode.
var Modes = []string{string(recorder.Record), string(recorder.Prune), string(recorder.Count), string(recorder.Profile), string(recorder.Off), string(recorder.On)}

// do runs a command and prints the answer: unchanged with --format json, otherwise as the text
// that say writes.
func (c *Control) do(ctx context.Context, v any, command string, say func(io.Writer) error, files ...*os.File) error {
	data, err := c.Process.Do(ctx, v, command, files...)
	if err != nil {
		return err
	}
	if c.Format == "json" {
		say = func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "%s\n", bytes.TrimSpace(data))
			return err
		}
	}
	return c.WriteText("", say)
}

// say prints text, or the recorder's answer with --format json.
func (c *Control) say(answer []byte, text string) error {
	if c.Format == "json" {
		text = string(bytes.TrimSpace(answer))
	}
	return c.WriteText("", line("%s", text))
}

// line prints an answer that is one line of text.
func line(format string, args ...any) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		return err
	}
}

// Status shows the state of the recorder.
func (c *Control) Status(ctx context.Context) error {
	var s client.Status
	return c.do(ctx, &s, "status", func(w io.Writer) error { return writeStatus(w, &s) })
}

// nanoseconds formats times that are not in ticks.
var nanoseconds = reader.Clock{Frequency: uint64(time.Second)}

func writeStatus(w io.Writer, s *client.Status) error {
	fmt.Fprintf(w, "process %d, %s\n", s.PID, texttab.Printable(s.Exe))
	row := func(what, format string, args ...any) {
		fmt.Fprintf(w, "  %-10s %s\n", what, fmt.Sprintf(format, args...))
	}
	row("mode", "%s", describeMode(s))
	recording := "no"
	if s.Recording {
		switch {
		case s.ObservedStream:
			recording = "all calls, into the trace of xray record"
		case s.Observed:
			recording = "into the rings, which xray record writes at the end"
		default:
			recording = "into the rings"
		}
		if st := s.Stream; st != nil {
			recording = "into a file, " + label.Bytes(uint64(st.Bytes)) + " so far"
			if st.Limit > 0 {
				recording += " of at most " + label.Bytes(uint64(st.Limit))
			}
		}
	}
	row("recording", "%s", recording)
	if n := s.Windows; n != nil {
		state := "none is open"
		if n.Open {
			state = "one is open"
		}
		row("windows", "%v every %v; %s so far, %v in total; %s", time.Duration(n.LengthNS), time.Duration(n.EveryNS),
			label.Grouped(uint64(n.Count)), time.Duration(n.RecordedNS).Round(time.Millisecond), state)
	}
	row("threads", "%d live, %d exited; rings of %s", s.Threads.Live, s.Threads.Dead, label.Bytes(uint64(s.RingBytes)))
	row("functions", "%s in %s; %s of %s sleds enabled", label.Grouped(uint64(s.Functions)), label.Count(uint64(s.Objects), "object", "objects"),
		label.Grouped(uint64(s.Patched)), label.Grouped(uint64(s.Sleds)))
	row("clock", "%s ticks per second", label.Grouped(uint64(s.Frequency)))
	row("running", "for %s", nanoseconds.Format(uint64(s.UptimeNS)))
	row("lost", "%s", label.Count(uint64(s.Dropped), "record", "records"))
	if s.OffCPU != "" {
		row("switches", "recorded (%s)", texttab.Printable(s.OffCPU))
	} else if s.NoOffCPU != "" {
		row("switches", "not recorded: %s", texttab.Printable(s.NoOffCPU))
	}
	if s.Sealed {
		row("seccomp", "a filter is in place, so the recorder makes no system calls on the program's threads")
	}
	for _, r := range s.Refused {
		row("refused", "%s: %s", texttab.Printable(r.Path), texttab.Printable(r.Why))
	}
	for _, warning := range s.Warnings {
		row("warning", "%s", texttab.Printable(warning))
	}
	return nil
}

func describeMode(s *client.Status) string {
	mode := texttab.Printable(string(s.Mode))
	if s.Paused != "" {
		mode = "off, paused; on: " + texttab.Printable(string(s.Paused))
	}
	if s.ThresholdNS > 0 {
		mode += ", calls of " + nanoseconds.Format(uint64(s.ThresholdNS)) + " and more"
	}
	if s.Depth > 0 {
		mode += fmt.Sprintf(", at most %d deep", s.Depth)
	}
	return mode
}

// Start starts recording.
func (c *Control) Start(ctx context.Context) error {
	if err := c.Check(); err != nil {
		return err
	}
	if c.Output == "" {
		if c.Limit > 0 {
			return cli.Usagef("--limit requires -o")
		}
		var s client.Status
		return c.do(ctx, &s, c.StartCommand(false), func(w io.Writer) error {
			if s.ObservedStream {
				return line("recording into the trace of xray record")(w)
			}
			return line("recording into the rings; `xray ctl %s snapshot -o FILE` writes what they hold", c.Process.Target())(w)
		})
	}
	data, err := c.StartFile(ctx, c.Process)
	if err != nil {
		return err
	}
	return c.say(data, fmt.Sprintf("recording into %s; `xray ctl %s stop` ends it", c.Output, c.Process.Target()))
}

// Stop stops recording.
func (c *Control) Stop(ctx context.Context) error { return c.do(ctx, nil, "stop", line("stopped")) }

// SetMode sets the mode.
func (c *Control) SetMode(ctx context.Context) error {
	if !slices.Contains(Modes, c.Args[0]) {
		return cli.Usagef("mode: choose one of %s", strings.Join(Modes, ", "))
	}
	mode := recorder.Mode(c.Args[0])
	if c.Threshold > 0 && mode != recorder.Prune {
		return cli.Usagef("--prune cannot be used with mode %s", mode)
	}
	if c.Depth > 0 && mode != recorder.Prune && mode != recorder.Record {
		return cli.Usagef("--depth cannot be used with mode %s", mode)
	}
	what := recorder.Settings{Mode: mode, Threshold: c.Threshold, Depth: c.Depth}
	return c.do(ctx, nil, what.ModeCommand(), line("mode %s", mode))
}

// SetThreshold sets the duration below which prune drops calls.
func (c *Control) SetThreshold(ctx context.Context) error {
	d, err := cli.ParseDuration(c.Args[0])
	if err != nil {
		return err
	}
	return c.do(ctx, nil, fmt.Sprintf("threshold %d", int64(d)), line("threshold %v", d))
}

// Choose records only the selected functions.
func (c *Control) Choose(ctx context.Context) error {
	data, text, err := c.Plan.Choose(ctx, c.Process)
	if err != nil {
		return err
	}
	return c.say(data, text)
}

// Rescan detects shared libraries that were loaded or unloaded.
func (c *Control) Rescan(ctx context.Context) error {
	var answer struct {
		Changed int64 `json:"changed"`
	}
	return c.do(ctx, &answer, "rescan", func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "%s changed\n", label.Count(uint64(answer.Changed), "object", "objects"))
		return err
	})
}

// Snapshot asks the recorder to write a trace of its rings. The file gets its name when it is
// complete.
func (c *Control) Snapshot(ctx context.Context) error {
	if c.Output == "" || c.Output == "-" {
		return cli.Usagef("snapshot requires -o FILE")
	}
	var answer struct {
		Records uint64 `json:"records"`
		Bytes   int64  `json:"bytes"`
		Torn    int64  `json:"torn"`
	}
	command := "snapshot"
	if c.Last > 0 {
		command = fmt.Sprintf("snapshot last_ns=%d", int64(c.Last))
	}
	var data []byte
	var events uint64
	var noEvents string
	err := fileio.Replace(c.Output, client.Create, func(file *os.File) (err error) {
		if data, err = c.Process.Do(ctx, &answer, command, file); err != nil {
			return err
		}
		events, noEvents, err = c.addSched(ctx, file)
		return err
	})
	if err != nil {
		return err
	}
	text := fmt.Sprintf("%s records, %s in %s", label.Grouped(answer.Records), label.Bytes(uint64(answer.Bytes)), c.Output)
	if answer.Torn > 0 {
		text += fmt.Sprintf("; %s overwritten during the snapshot: use larger rings", label.Count(uint64(answer.Torn), "of the oldest pieces was", "of the oldest pieces were"))
	}
	if events > 0 {
		text += "; " + label.Count(events, "scheduler event", "scheduler events")
	}
	if noEvents != "" {
		text += "; no scheduler events: " + noEvents
	}
	text += "; next: xray account " + c.Output
	return c.say(data, text)
}

// addSched adds to a snapshot the scheduler events that xray record has collected for the process.
// If the process is recorded with scheduler events but there are none, it returns the reason.
func (c *Control) addSched(ctx context.Context, file *os.File) (events uint64, why string, err error) {
	t, err := reader.Open(reader.Options{}, file.Name())
	if err != nil {
		return 0, "", nil // nothing was recorded yet
	}
	defer t.Close()
	return observe.AddSched(ctx, c.Process, t, c.Last, file)
}

// Counters shows the calls of each function.
func (c *Control) Counters(ctx context.Context) error {
	command := "counters"
	if c.Reset {
		command += " reset=1"
	}
	answer, body, err := c.Process.Data(ctx, command)
	if err != nil {
		return err
	}
	if c.Format == "json" {
		return c.WriteText(c.Output, line("%s", bytes.TrimSpace(answer)))
	}
	counters, err := parseCounters(body)
	if err != nil {
		return err
	}
	if len(counters) == 0 {
		var status client.Status
		if _, err := c.Process.Do(ctx, &status, "status"); err == nil && status.Mode != recorder.Count {
			c.Say("nothing counts calls: the mode is %s. `xray ctl %d mode count` counts them", status.Mode, c.Process.PID)
		}
	}
	objects, err := c.Process.Objects(ctx)
	if err != nil {
		return err
	}
	opts := c.DebugFlags.Options(c.Streams)
	opts.Style = symbolize.Style(c.Style)
	// If the file of an object is gone or was rebuilt, show the number of the object.
	names, _, err := symbolize.LoadRecorded(objects, nil, nil, symbolize.Search{Options: opts, Dirs: c.DirsFor(c.Process.PID)})
	if err != nil {
		return err
	}
	defer names.Close()
	return c.WriteText(c.Output, func(w io.Writer) error { return writeCounters(w, counters, names) })
}

// parseCounters decodes the counters of the recorder: their number, and for each one the
// function, four zero bytes and the number of calls.
func parseCounters(b []byte) ([]reader.Counter, error) {
	if len(b) < 8 || (len(b)-8)%16 != 0 || uint64(len(b)-8)/16 != binary.LittleEndian.Uint64(b) {
		return nil, fmt.Errorf("the recorder wrote %d bytes of counters, not a multiple of the counter size", len(b))
	}
	var counters []reader.Counter
	for b = b[8:]; len(b) > 0; b = b[16:] {
		counters = append(counters, reader.Counter{
			Func: reader.FuncID(binary.LittleEndian.Uint32(b)), Calls: binary.LittleEndian.Uint64(b[8:]),
		})
	}
	return counters, nil
}

func writeCounters(w io.Writer, counters []reader.Counter, names symbolize.Names) error {
	slices.SortFunc(counters, func(a, b reader.Counter) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Func, b.Func))
	})
	table := texttab.Table{Columns: []texttab.Column{{Title: "calls", Right: true}, {Title: "function"}}}
	for _, k := range counters {
		table.Add(label.Grouped(k.Calls), symbolize.Label(names, k.Func))
	}
	return table.WriteText(w)
}

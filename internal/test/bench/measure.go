package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// cost is the cost of one run of a program.
type cost struct {
	wall, cpu time.Duration
	peak      int64 // bytes of resident memory; 0 if the system does not report it
}

func (c cost) wallSeconds() float64 { return c.wall.Seconds() }
func (c cost) cpuSeconds() float64  { return c.cpu.Seconds() }
func (c cost) peakMB() float64      { return float64(c.peak) / 1e6 }

// measure runs p once. The system discards its output.
func measure(p program, args []string) (cost, error) {
	cmd := exec.Command(p.path, args...)
	if p.procs > 0 {
		cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(p.procs))
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	err := cmd.Run()
	wall := time.Since(start)
	if err != nil {
		first, _, _ := strings.Cut(strings.TrimSpace(stderr.String()), "\n")
		return cost{}, fmt.Errorf("%w: %s", err, first)
	}
	state := cmd.ProcessState
	return cost{wall: wall, cpu: state.UserTime() + state.SystemTime(), peak: peakMemory(state)}, nil
}

// outputSize runs p once more and counts its output bytes.
func outputSize(p program, args []string) (int64, error) {
	cmd := exec.Command(p.path, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	n, err := io.Copy(io.Discard, out)
	return n, errors.Join(err, cmd.Wait())
}

package kernel

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/xray-tools/xray/reader"
)

// Events are those of a text, in the order of time.
type Events struct {
	// List has times in nanoseconds, or in ticks of the TSC.
	List []Event
	// Ticks says that times are plain numbers, as with the clock x86-tsc. Otherwise they are
	// seconds with a fraction.
	Ticks bool
	// Step is the resolution of times in nanoseconds, or 1 for ticks.
	Step uint64
	// Other is the number of lines that are not scheduler events.
	Other int
	// Damaged is the number of lines of scheduler events that cannot be read. FirstDamaged is
	// the number of the first one.
	Damaged, FirstDamaged int
	// Missing is a lower bound of the number of events that the tool reports as lost.
	Missing uint64
	// Wakeups says that the text has no sched_waking, and List has sched_wakeup instead. The
	// current task of such an event may not be the one that woke the other.
	Wakeups bool
}

// maxEvents limits the memory of a text's events.
const maxEvents = 1 << 24

// line is "TASK-PID [CPU] FLAGS TIME: EVENT: FIELDS", with blanks or a dash between the name
// and the ID of the task, perhaps with the process before or after the ID, and with or without
// flags.
var line = regexp.MustCompile(`^\s*(.*?)(?:\s+|-)(?:\d+/)?(\d+)\s+(?:\(\s*[-\d]+\)\s+)?\[(\d+)\]\s+(?:([^\s\d:][^\s:]{3,7})\s+)?(\d+)(?:\.(\d{6,9}))?:\s+(?:\d+\s+)?(?:\w+:)?(sched_(?:switch|waking|wakeup|wakeup_new|process_fork)|\w+_(?:entry|exit)):\s+(.*)$`)

var (
	switchFields = regexp.MustCompile(`^prev_comm=(.*) prev_pid=(\d+) prev_prio=-?\d+ prev_state=(\S+) ==> next_comm=(.*) next_pid=(\d+) `)
	switchShort  = regexp.MustCompile(`^(.*):(\d+) \[-?\d+\] (\S+) ==> (.*):(\d+) \[-?\d+\]`)
	wakeFields   = regexp.MustCompile(`^comm=(.*) pid=(\d+) prio=`)
	wakeShort    = regexp.MustCompile(`^(.*):(\d+) \[-?\d+\]`)
	forkFields   = regexp.MustCompile(`^comm=.* pid=(\d+) child_comm=(.*) child_pid=(\d+)`)
	irqFields    = regexp.MustCompile(`^(?:irq|vec|vector)=(\d+)(?: name=(.*)| \[action=(\w+)\])?`)
	lostLine     = regexp.MustCompile(`LOST (\d+) (?:events|EVENTS)|\[LOST (\d+) EVENTS\]|lost (\d+) events`)
)

// ParseText reads a text.
func ParseText(r io.Reader) (*Events, error) {
	e := &Events{Step: 1}
	var wakeups []Event
	waking, seconds := false, false
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for n := 1; s.Scan(); n++ {
		text := s.Text()
		m := line.FindStringSubmatch(text)
		if m != nil && !known(m[7]) {
			m = nil
		}
		if m == nil {
			if lost := lostLine.FindStringSubmatch(text); lost != nil {
				missing, err := strconv.ParseUint(cmp.Or(lost[1], lost[2], lost[3]), 10, 32)
				e.Missing += max(1, missing)
				_ = err // too large a number counts as the largest one, and none as 1
				continue
			}
			e.Other++
			continue
		}
		event, err := parse(m)
		if err != nil || event.Kind == 0 {
			if e.Damaged++; e.FirstDamaged == 0 {
				e.FirstDamaged = n
			}
			continue
		}
		if m[6] == "" {
			e.Ticks = true
		} else {
			seconds = true
			e.Step = max(e.Step, uint64(math.Pow10(9-len(m[6]))))
		}
		if e.Ticks && seconds {
			return nil, fmt.Errorf("line %d: some times are seconds, others are ticks", n)
		}
		if len(e.List)+len(wakeups) == maxEvents {
			return nil, fmt.Errorf("line %d: more than %d events: cut the text to the time of the trace", n, maxEvents)
		}
		switch m[7] {
		case "sched_wakeup", "sched_wakeup_new":
			wakeups = append(wakeups, event)
			continue
		case "sched_waking":
			waking = true
		}
		e.List = append(e.List, event)
	}
	if err := s.Err(); err != nil {
		return nil, err
	}
	if e.Ticks {
		e.Step = 1
	}
	if !waking && len(wakeups) > 0 {
		e.Wakeups = true
		e.List = append(e.List, wakeups...)
	}
	slices.SortStableFunc(e.List, func(a, b Event) int { return cmp.Compare(a.Time, b.Time) })
	markWakers(e.List)
	return e, nil
}

// known reports whether the events of a name are read.
func known(event string) bool {
	_, interrupts := namedInterrupt(event)
	return interrupts || strings.HasPrefix(event, "sched_")
}

// markWakers marks the wakings that happened inside interrupts of the list. perf does not mark
// them.
func markWakers(list []Event) {
	type open struct{ hard, soft int }
	cpus := make(map[uint16]*open)
	for i := range list {
		e := &list[i]
		c := cpus[e.CPU]
		if c == nil {
			c = new(open)
			cpus[e.CPU] = c
		}
		depth := &c.hard
		if class, _, ok := (&reader.Task{TID: e.Other}).Interrupt(); ok && class == reader.SoftIRQ {
			depth = &c.soft
		}
		switch e.Kind {
		case Interrupted:
			*depth++
		case Resumed:
			*depth = max(0, *depth-1)
		case Switch:
			*c = open{} // never inside an interrupt, so the end of one is missing
		case Waking:
			e.Interrupt = e.Interrupt || c.hard > 0
			e.SoftIRQ = e.SoftIRQ || c.soft > 0
		}
	}
}

// parse reads the parts of a line. An event of kind 0 has unknown fields.
func parse(m []string) (e Event, err error) {
	cpu, err := strconv.ParseUint(m[3], 10, 16)
	if err != nil {
		return e, err
	}
	e.CPU = uint16(cpu)
	if e.Time, err = strconv.ParseUint(m[5], 10, 64); err != nil {
		return e, err
	}
	if m[6] != "" {
		fraction, err := strconv.ParseUint((m[6] + "000")[:9], 10, 64)
		if err != nil || e.Time > math.MaxUint64/1_000_000_000-1 {
			return e, fmt.Errorf("time %s.%s", m[5], m[6])
		}
		e.Time = e.Time*1e9 + fraction
	}
	pid := func(text string) int32 {
		n, err1 := strconv.ParseInt(text, 10, 32)
		if err1 != nil {
			err = err1
		}
		return int32(n)
	}
	e.Task = pid(m[2])
	if name := strings.TrimSpace(m[1]); name != "<...>" && name != ":"+m[2] {
		copy(e.TaskComm[:], name)
	}
	// The tracer's third flag says in what context the event happened. perf has no flags.
	if len(m[4]) >= 3 {
		e.Interrupt = strings.ContainsAny(m[4][2:3], "hHzZ")
		e.SoftIRQ = strings.ContainsAny(m[4][2:3], "sH")
	}
	fields := m[8]
	switch m[7] {
	case "sched_switch":
		f := either(switchFields.FindStringSubmatch(fields), switchShort.FindStringSubmatch(fields))
		if f == nil {
			return e, nil
		}
		e.Kind, e.Task, e.Other = Switch, pid(f[2]), pid(f[5])
		e.TaskComm, e.OtherComm = Comm{}, Comm{}
		copy(e.TaskComm[:], f[1])
		copy(e.OtherComm[:], f[4])
		e.State, e.Preempted = f[3][0], strings.HasSuffix(f[3], "+")
	case "sched_process_fork":
		f := forkFields.FindStringSubmatch(fields)
		if f == nil {
			return e, nil
		}
		e.Kind, e.Task, e.Other = Fork, pid(f[1]), pid(f[3])
		copy(e.OtherComm[:], f[2])
	case "sched_waking", "sched_wakeup", "sched_wakeup_new":
		f := either(wakeFields.FindStringSubmatch(fields), wakeShort.FindStringSubmatch(fields))
		if f == nil {
			return e, nil
		}
		e.Kind, e.Other = Waking, pid(f[2])
		copy(e.OtherComm[:], f[1])
		if e.Task == 0 {
			e.Interrupt = true // the idle task wakes nobody
		}
	default:
		f := irqFields.FindStringSubmatch(fields)
		if f == nil {
			return e, nil
		}
		number, err := strconv.ParseUint(f[1], 10, 24)
		if err != nil {
			return e, err
		}
		name, _ := namedInterrupt(m[7])
		e.Kind, e.Other, e.OtherComm = name.Kind, reader.InterruptTID(name.Class, uint32(number)), name.Fixed
		copy(e.OtherComm[:], f[2]+f[3])
	}
	return e, err
}

func either(a, b []string) []string {
	if a != nil {
		return a
	}
	return b
}

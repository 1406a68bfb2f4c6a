package kernel

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
)

func parseText(t *testing.T, text string) *Events {
	t.Helper()
	e, err := ParseText(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestParsePerf(t *testing.T) {
	e := parseText(t, `# a header
            perf 10279 [000] 38496.199695786:       sched:sched_waking: comm=migration/0 pid=18 prio=0 target_cpu=000
        my  prog 10280/10279 [001] 38496.199700023:          1       sched:sched_switch: prev_comm=my  prog prev_pid=10279 prev_prio=120 prev_state=R+ ==> next_comm=migration/0 next_pid=18 next_prio=0
        clang-22 10481 [000] 38496.203161807: sched:sched_process_fork: comm=clang-22 pid=10481 child_comm=clang-22 child_pid=10507
         swapper     0 [003] 38496.204000000: sched:sched_waking: a b:7 [120] CPU:003
         swapper     0 [003] 38496.205000000: sched:sched_switch: swapper/3:0 [120] R ==> a b:7 [120]
         swapper     0 [003] 38496.205000001: sched:sched_wakeup: comm=x pid=7 prio=120 target_cpu=003
         swapper     0 [003] 38496.205000002: cycles: 7f00
PERF_RECORD_LOST lost 17 events
`)
	want := &Events{Step: 1, Other: 2, Missing: 17, List: []Event{
		{Time: 38496199695786, Kind: Waking, Task: 10279, TaskComm: comm("perf"), Other: 18, OtherComm: comm("migration/0")},
		{Time: 38496199700023, Kind: Switch, CPU: 1, Task: 10279, TaskComm: comm("my  prog"), State: 'R', Preempted: true, Other: 18, OtherComm: comm("migration/0")},
		{Time: 38496203161807, Kind: Fork, Task: 10481, TaskComm: comm("clang-22"), Other: 10507, OtherComm: comm("clang-22")},
		{Time: 38496204000000, Kind: Waking, CPU: 3, TaskComm: comm("swapper"), Other: 7, OtherComm: comm("a b"), Interrupt: true},
		{Time: 38496205000000, Kind: Switch, CPU: 3, TaskComm: comm("swapper/3"), State: 'R', Other: 7, OtherComm: comm("a b")},
	}}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

func TestParseFtrace(t *testing.T) {
	e := parseText(t, `CPU:1 [LOST 5 EVENTS]
          <idle>-0       [001] d.h4. 92198795695526: sched_wakeup: comm=kworker/1-2:x pid=17 prio=120 target_cpu=000
     kworker/1-2-16196   (  16196) [001] d..2. 92198795679079: sched_switch: prev_comm=kworker/1-2 prev_pid=16196 prev_prio=120 prev_state=D|S ==> next_comm=x next_pid=17 next_prio=120
`)
	want := &Events{Step: 1, Ticks: true, Missing: 5, Wakeups: true, List: []Event{
		{Time: 92198795679079, Kind: Switch, CPU: 1, Task: 16196, TaskComm: comm("kworker/1-2"), State: 'D', Other: 17, OtherComm: comm("x")},
		{Time: 92198795695526, Kind: Waking, CPU: 1, TaskComm: comm("<idle>"), Other: 17, OtherComm: comm("kworker/1-2:x"), Interrupt: true},
	}}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

// In texts without flags, the interrupts themselves tell in which wakings happened.
func TestParseInterrupts(t *testing.T) {
	e := parseText(t, `a 7 [001] 1.000000001: irq:irq_handler_entry: irq=41 name=virtio3-rx x
a 7 [001] 1.000000002: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000
a 7 [002] 1.000000003: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000
a 7 [001] 1.000000004: irq:irq_handler_exit: irq=41 ret=handled
a 7 [001] 1.000000005: irq:softirq_entry: vec=3 [action=NET_RX]
a 7 [001] 1.000000006: irq_vectors:local_timer_entry: vector=236
a 7 [001] 1.000000007: irq_vectors:local_timer_exit: vector=236
a 7 [001] 1.000000008: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000
a 7 [001] 1.000000009: irq:softirq_exit: vec=3 [action=NET_RX]
a 7 [001] 1.000000010: irq:softirq_raise: vec=3 [action=NET_RX]
a 7 [001] 1.000000011: raw_syscalls:sys_exit: NR 1 = 1
a 7 [001] 1.000000012: sched:sched_waking: comm=b pid=8 prio=120 target_cpu=000
a 7 [001] 1.000000013: irq:softirq_entry: vector 3
a 7 [001] 1.000000014: irq:softirq_entry: vec=99999999 [action=X]
`)
	nic, timer, softirq := reader.InterruptTID(reader.DeviceInterrupt, 41), reader.InterruptTID(reader.SystemInterrupt, 236), reader.InterruptTID(reader.SoftIRQ, 3)
	want := &Events{Step: 1, Other: 2, Damaged: 2, FirstDamaged: 13, List: []Event{
		{Time: 1e9 + 1, Kind: Interrupted, CPU: 1, Task: 7, TaskComm: comm("a"), Other: nic, OtherComm: comm("virtio3-rx x")},
		{Time: 1e9 + 2, Kind: Waking, CPU: 1, Task: 7, TaskComm: comm("a"), Other: 8, OtherComm: comm("b"), Interrupt: true},
		{Time: 1e9 + 3, Kind: Waking, CPU: 2, Task: 7, TaskComm: comm("a"), Other: 8, OtherComm: comm("b")},
		{Time: 1e9 + 4, Kind: Resumed, CPU: 1, Task: 7, TaskComm: comm("a"), Other: nic},
		{Time: 1e9 + 5, Kind: Interrupted, CPU: 1, Task: 7, TaskComm: comm("a"), Other: softirq, OtherComm: comm("NET_RX")},
		{Time: 1e9 + 6, Kind: Interrupted, CPU: 1, Task: 7, TaskComm: comm("a"), Other: timer, OtherComm: comm("local_timer")},
		{Time: 1e9 + 7, Kind: Resumed, CPU: 1, Task: 7, TaskComm: comm("a"), Other: timer, OtherComm: comm("local_timer")},
		{Time: 1e9 + 8, Kind: Waking, CPU: 1, Task: 7, TaskComm: comm("a"), Other: 8, OtherComm: comm("b"), SoftIRQ: true},
		{Time: 1e9 + 9, Kind: Resumed, CPU: 1, Task: 7, TaskComm: comm("a"), Other: softirq, OtherComm: comm("NET_RX")},
		{Time: 1e9 + 12, Kind: Waking, CPU: 1, Task: 7, TaskComm: comm("a"), Other: 8, OtherComm: comm("b")},
	}}
	if diff := cmp.Diff(want, e); diff != "" {
		t.Error(diff)
	}
}

func TestParseDamage(t *testing.T) {
	const good = "a 1 [000] 1.000000: sched:sched_waking: comm=b pid=2 prio=1\n"
	if e := parseText(t, good); e.Step != 1000 || e.List[0].Time != 1e9 {
		t.Errorf("got %+v", e)
	}
	if e := parseText(t, good+"a 1 [000] 1.000000: sched:sched_switch: garbage\na 1 [70000] 1.000000: sched:sched_waking: comm=b pid=2 prio=1\n"); e.Damaged != 2 || e.FirstDamaged != 2 || len(e.List) != 1 {
		t.Errorf("got %+v", e)
	}
	if e := parseText(t, "a 1 [000] 99999999999.000000: sched:sched_waking: comm=b pid=2 prio=1\na 1 [000] 1.000000: sched:sched_waking: comm=b pid=99999999999 prio=1\n"); e.Damaged != 2 {
		t.Errorf("got %+v", e)
	}
	if _, err := ParseText(strings.NewReader(good + "a 1 [000] 12345: sched:sched_waking: comm=b pid=2 prio=1\n")); err == nil {
		t.Error("got no error for times of two kinds")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("a 1 [000] 1.000000: sched:sched_waking: comm=b pid=2 prio=1\n")
	f.Add("b-1 [000] d..2. 100: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R+ ==> next_comm=b next_pid=2 next_prio=120")
	f.Add("PERF_RECORD_LOST lost 99999999999999999999 events\n[LOST 1 EVENTS]")
	f.Fuzz(func(t *testing.T, text string) {
		e, err := ParseText(strings.NewReader(text))
		if err != nil {
			return
		}
		for i := range e.List {
			if ev := &e.List[i]; ev.Kind == 0 || i > 0 && ev.Time < e.List[i-1].Time || ev.Task < 0 || ev.Other < 0 {
				t.Fatalf("got %+v", ev)
			}
		}
		if lines := strings.Count(text, "\n") + 1; len(e.List)+e.Damaged > lines {
			t.Fatalf("got %d events from %d lines", len(e.List), lines)
		}
	})
}

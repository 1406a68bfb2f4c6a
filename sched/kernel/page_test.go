package kernel

import (
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/reader"
)

// decoder returns a decoder for the formats of Linux 6.18.
func decoder(t testing.TB) *pageDecoder {
	t.Helper()
	var texts [4]string
	for i, name := range []string{"header_page", "sched_switch", "sched_waking", "sched_process_fork"} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = string(data)
	}
	d, err := newPageDecoder(texts[0], texts[1], texts[2], texts[3])
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []struct {
		index int
		kind  Kind
		name  string
	}{{0, Interrupted, "irq_handler_entry"}, {0, Resumed, "irq_handler_exit"}, {1, Interrupted, "softirq_entry"}, {1, Resumed, "softirq_exit"}, {2, Interrupted, "local_timer_entry"}} {
		text, err := os.ReadFile("testdata/" + e.name)
		if err == nil {
			err = d.addInterrupt(e.index, e.kind, string(text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func comm(name string) (c Comm) {
	copy(c[:], name)
	return c
}

var le = binary.LittleEndian

// page returns a page with these entries and this first time.
func page(time uint64, flags uint64, entries ...[]byte) []byte {
	var data []byte
	for _, e := range entries {
		data = append(data, e...)
	}
	b := le.AppendUint64(nil, time)
	b = le.AppendUint64(b, uint64(len(data))|flags)
	return append(b, data...)
}

// entry returns an event with its head. The size must be a multiple of 4.
func entry(delta uint32, event []byte) []byte {
	return append(le.AppendUint32(nil, delta<<5|uint32(len(event)/4)), event...)
}

func head(typ uint16, flags byte, pid uint32) []byte {
	return le.AppendUint32(append(le.AppendUint16(nil, typ), flags, 0), pid)
}

func padded(name string) []byte {
	c := comm(name)
	return c[:]
}

func switchEvent(d *pageDecoder, prev uint32, prevName string, state uint64, next uint32, nextName string) []byte {
	b := append(head(d.switchID, 0, prev), padded(prevName)...)
	b = le.AppendUint64(le.AppendUint32(b, prev), 0)[:32]
	b = le.AppendUint64(b, state)
	b = append(b, padded(nextName)...)
	return le.AppendUint32(le.AppendUint32(b, next), 120)
}

func wakingEvent(d *pageDecoder, flags byte, waker, woken uint32, name string) []byte {
	b := append(head(d.wakingID, flags, waker), padded(name)...)
	return le.AppendUint32(le.AppendUint32(le.AppendUint32(b, woken), 120), 1)
}

func forkEvent(d *pageDecoder, parent, child uint32, name string) []byte {
	b := le.AppendUint32(head(d.forkID, 0, parent), 0)
	b = le.AppendUint32(b, parent)
	b = le.AppendUint32(b, 24|uint32(len(name)+1)<<16)
	b = le.AppendUint32(b, child)
	b = append(append(b, name...), 0)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

func decode(t testing.TB, d *pageDecoder, p []byte) (list []Event, lost uint64) {
	t.Helper()
	lost, err := d.Page(p, 3, func(e *Event) { list = append(list, *e) })
	if err != nil {
		t.Fatal(err)
	}
	return list, lost
}

func TestPage(t *testing.T) {
	d := decoder(t)
	extend := le.AppendUint32(le.AppendUint32(nil, 5<<5|typeTimeExtend), 2) // 2<<27 + 5
	stamp := le.AppendUint32(le.AppendUint32(nil, 7<<5|typeTimeStamp), 1<<20)
	discarded := append(le.AppendUint32(le.AppendUint32(nil, 1<<5|typePadding), 12), make([]byte, 8)...)
	long := switchEvent(d, 7, "prog", 0x101, 9, "sixteen letters.")
	large := append(le.AppendUint32(le.AppendUint32(nil, 4<<5), uint32(len(long)+4)), long...)
	got, lost := decode(t, d, page(1000, 0,
		entry(1, switchEvent(d, 7, "prog", 0, 8, "hog")),
		entry(2, wakingEvent(d, inSoftIRQ|inHardIRQ, 8, 7, "prog")),
		extend, entry(0, forkEvent(d, 8, 20, "child")),
		entry(3, head(999, 0, 1)), discarded[:16], large,
		stamp, entry(0, wakingEvent(d, 0, 8, 7, "prog")),
		le.AppendUint32(nil, typePadding), []byte("garbage that is no event")))
	at := uint64(1003 + 2<<27 + 5)
	want := []Event{
		{Time: 1001, CPU: 3, Kind: Switch, Task: 7, TaskComm: comm("prog"), State: 'R', Other: 8, OtherComm: comm("hog")},
		{Time: 1003, CPU: 3, Kind: Waking, Task: 8, Other: 7, OtherComm: comm("prog"), Interrupt: true, SoftIRQ: true},
		{Time: at, CPU: 3, Kind: Fork, Task: 8, Other: 20, OtherComm: comm("child")},
		{Time: at + 3 + 1 + 4, CPU: 3, Kind: Switch, Task: 7, TaskComm: comm("prog"), State: 'S', Preempted: true, Other: 9, OtherComm: comm("sixteen letters.")},
		{Time: 1<<47 + 7, CPU: 3, Kind: Waking, Task: 8, Other: 7, OtherComm: comm("prog")},
	}
	if diff := cmp.Diff(want, got); diff != "" || lost != 0 {
		t.Errorf("got %d lost events; events (-want +got):\n%s", lost, diff)
	}
}

// interruptEntry returns an event with a number, and perhaps with a name at its end.
func interruptEntry(typ uint16, task, number uint32, name string) []byte {
	b := le.AppendUint32(head(typ, inHardIRQ, task), number)
	b = le.AppendUint32(b, 16|uint32(len(name)+1)<<16)
	for b = append(append(b, name...), 0); len(b)%4 != 0; {
		b = append(b, 0)
	}
	return b
}

func TestPageInterrupts(t *testing.T) {
	d := decoder(t)
	got, _ := decode(t, d, page(1000, 0,
		entry(1, interruptEntry(225, 7, 41, "virtio3-rx")), entry(1, interruptEntry(224, 7, 41, "")),
		entry(1, interruptEntry(223, 7, 3, "")), entry(1, interruptEntry(165, 7, 236, "")), entry(1, interruptEntry(222, 7, 3, ""))))
	rx, net := reader.InterruptTID(reader.DeviceInterrupt, 41), reader.InterruptTID(reader.SoftIRQ, 3)
	want := []Event{
		{Time: 1001, CPU: 3, Kind: Interrupted, Task: 7, Other: rx, OtherComm: comm("virtio3-rx"), Interrupt: true},
		{Time: 1002, CPU: 3, Kind: Resumed, Task: 7, Other: rx, Interrupt: true},
		{Time: 1003, CPU: 3, Kind: Interrupted, Task: 7, Other: net, OtherComm: comm("NET_RX"), Interrupt: true},
		{Time: 1004, CPU: 3, Kind: Interrupted, Task: 7, Other: reader.InterruptTID(reader.SystemInterrupt, 236), OtherComm: comm("local_timer"), Interrupt: true},
		{Time: 1005, CPU: 3, Kind: Resumed, Task: 7, Other: net, OtherComm: comm("NET_RX"), Interrupt: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	var labels []string
	for i := range got {
		task := reader.Task{TID: got[i].Other, Name: got[i].OtherComm.String()}
		labels = append(labels, task.InterruptLabel())
	}
	if got := strings.Join(labels, ", "); got != "interrupt 41 (virtio3-rx), interrupt 41, softirq NET_RX, interrupt local_timer, softirq NET_RX" {
		t.Errorf("got the labels %s", got)
	}
}

func TestPageLost(t *testing.T) {
	d := decoder(t)
	p := page(1, missedEvents|missedCounted, entry(1, wakingEvent(d, 0, 8, 7, "prog")))
	if list, lost := decode(t, d, le.AppendUint64(p, 41)); lost != 41 || len(list) != 1 {
		t.Errorf("got %d lost, %d events", lost, len(list))
	}
	if _, lost := decode(t, d, page(1, missedEvents)); lost != 1 {
		t.Errorf("got %d lost events", lost)
	}
}

func TestPageDamage(t *testing.T) {
	d := decoder(t)
	whole := page(1, 0, entry(1, wakingEvent(d, 0, 8, 7, "prog")))
	for n := range whole {
		if _, err := d.Page(whole[:n], 0, func(*Event) { t.Error("got an event from a truncated page") }); err == nil {
			t.Errorf("no error for %d bytes", n)
		}
	}
	for _, p := range [][]byte{
		page(1, 0, le.AppendUint32(nil, 5)),
		page(1, 0, le.AppendUint32(nil, typeTimeExtend)),
		page(1, 0, le.AppendUint32(le.AppendUint32(nil, 0), 2)),
		page(1, 0, le.AppendUint32(le.AppendUint32(nil, 0), 1<<31)),
		page(1, 0, le.AppendUint32(le.AppendUint32(nil, 1<<5|typePadding), 1<<31)),
	} {
		if _, err := d.Page(p, 0, func(*Event) {}); err == nil {
			t.Errorf("no error for %x", p)
		}
	}
}

func TestFormats(t *testing.T) {
	good, err := os.ReadFile("testdata/sched_switch")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"", "ID: x", "ID: 99999999", strings.Replace(string(good), "prev_state;", "state;", 1), strings.Split(string(good), "print fmt")[0]} {
		if _, err := newPageDecoder("", bad, bad, bad); err == nil {
			t.Errorf("got a decoder for the invalid format %.40q", bad)
		}
	}
}

func FuzzPage(f *testing.F) {
	d := decoder(f)
	f.Add(page(1, missedEvents|missedCounted, entry(1, switchEvent(d, 7, "prog", 0, 8, "hog")), entry(2, forkEvent(d, 8, 20, "child"))))
	f.Add(page(1, 0, entry(1, interruptEntry(225, 7, 41, "virtio3-rx")), entry(1, interruptEntry(222, 7, 3, ""))))
	f.Add(page(1<<62, 0, le.AppendUint32(le.AppendUint32(nil, 7<<5|typeTimeStamp), 1), le.AppendUint32(le.AppendUint32(nil, 1<<5|typePadding), 4)))
	f.Fuzz(func(t *testing.T, p []byte) {
		n := 0
		if _, err := d.Page(p, 0, func(e *Event) {
			if n++; e.Kind < Switch || e.Kind > Resumed {
				t.Fatalf("got %+v", e)
			}
		}); err == nil && n > len(p)/8 {
			t.Fatalf("%d events of %d bytes", n, len(p))
		}
	})
}

package iocalls

import (
	"fmt"
	"testing"

	"github.com/xray-tools/xray/reader"
)

// Sockets to many ephemeral ports of a host have one name. Others keep theirs.
func TestGroupPorts(t *testing.T) {
	n := NewNames()
	for i := range 2500 {
		n.of[descriptor{0, 7, int32(i)}] = []naming{{tsc: 1, name: fmt.Sprintf("socket to 127.0.0.1:%d", 32768+i)}}
	}
	others := []string{"socket to 127.0.0.1:8080", "socket to [::1]:50000", "socket to 10.0.0.1:40000", "socket at 127.0.0.1:40000", "/etc/hosts"}
	for i, name := range others {
		n.of[descriptor{0, 8, int32(i)}] = []naming{{tsc: 1, name: name}}
	}
	n.Settle(nil)
	for d, list := range n.of {
		want := "socket to 127.0.0.1, any port"
		if d.process == 8 {
			want = others[d.fd]
		}
		if list[0].name != want {
			t.Errorf("got %q, want %q", list[0].name, want)
		}
	}
}

// A pipe is named by the processes that have its other end: those in the trace of the same run, and those that the
// recorder saw.
func TestNamePipes(t *testing.T) {
	n := NewNames()
	for _, use := range []struct {
		file, process, fd int32
		pipe              uint64
		end               reader.PipeEnd
	}{
		{0, 7, 4, 100, reader.WriteEnd}, {1, 8, 3, 100, reader.ReadEnd}, {0, 7, 3, 100, reader.ReadEnd}, // another process of the run
		{0, 7, 5, 101, reader.ReadEnd}, {0, 7, 6, 101, reader.WriteEnd}, // itself
		{0, 7, 8, 102, reader.WriteEnd}, {2, 9, 8, 102, reader.ReadEnd}, // another run
		{0, 7, 9, 103, reader.ReadEnd}, // what the recorder saw
		{0, 7, 10, 104, reader.WriteEnd}, {0, 7, 11, 104, reader.WriteEnd},
		{0, 7, 12, 105, reader.NoEnd}, // an older trace
	} {
		k := descriptor{use.file, use.process, use.fd}
		n.of[k] = append(n.of[k], naming{tsc: 1, name: "pipe", pipe: use.pipe, end: use.end})
	}
	recordings := []*reader.Recording{
		{Process: reader.Process{Session: 1, Exe: "/bin/server", Ends: []reader.OtherEnd{
			{Inode: 103, Write: true, PID: 40, Name: "cron"}, {Inode: 103, PID: 41, Name: "reader"}, {Inode: 104, Write: true, PID: 42, Name: "writer"}, {Inode: 100, PID: 8, Name: "log"}}}},
		{Process: reader.Process{Session: 1, Exe: "/bin/logger"}},
		{Process: reader.Process{Session: 2, Exe: "/bin/other"}},
	}
	n.Settle(func(file int) *reader.Recording { return recordings[file] })
	for k, want := range map[descriptor]string{
		{0, 7, 4}: "pipe to log, process 8", {1, 8, 3}: "pipe from server, process 7", {0, 7, 3}: "pipe from itself, process 7", {0, 7, 5}: "pipe from itself, process 7", {0, 7, 6}: "pipe to itself, process 7",
		{0, 7, 8}: "pipe", {2, 9, 8}: "pipe", {0, 7, 9}: "pipe from cron, process 40", {0, 7, 10}: "pipe", {0, 7, 12}: "pipe",
	} {
		if got := n.of[k][0].name; got != want {
			t.Errorf("%v: got %q, want %q", k, got, want)
		}
	}
}

package observe

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
)

// The other ends of a process's pipes are those that other processes have, of each direction.
func TestPipes(t *testing.T) {
	testenv.Need(t, "cat")
	cat := exec.Command("cat")
	to, err := cat.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := cat.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	defer cat.Wait()
	defer to.Close()
	if _, err := to.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := from.Read(make([]byte, 1)); err != nil { // now it is cat, and no longer a copy of this process
		t.Fatal(err)
	}
	inode := func(f any) uint64 {
		link, err := os.Readlink("/proc/self/fd/" + fmt.Sprint(f.(interface{ Fd() uintptr }).Fd()))
		if err != nil {
			t.Fatal(err)
		}
		return reader.PipeInode(link)
	}
	want := map[uint64]reader.OtherEnd{}
	for i, f := range []any{to, from} {
		n := inode(f)
		want[n] = reader.OtherEnd{Inode: n, Write: i == 1, PID: int32(cat.Process.Pid), Name: "cat"}
	}
	var p pipes
	p.read("/", os.Getpid())
	got := map[uint64]reader.OtherEnd{}
	for _, end := range p.report() {
		if want[end.Inode].PID == end.PID {
			got[end.Inode] = end
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

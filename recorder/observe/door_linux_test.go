package observe

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/ring"
	"github.com/xray-tools/xray/symbolize"
)

// runObserver runs an observer until the end of the test.
func runObserver(t *testing.T, o Options) *Observer {
	t.Helper()
	ob, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- ob.Run(t.Context()) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return ob
}

func testHello(o *Options) []byte {
	hello := make([]byte, ring.HelloSize)
	copy(hello, ring.ArenaMagic)
	binary.LittleEndian.PutUint32(hello[16:], ring.ArenaVersion)
	binary.LittleEndian.PutUint32(hello[20:], uint32(os.Getpid()))
	binary.LittleEndian.PutUint64(hello[24:], o.Session)
	copy(hello[ring.HelloKeyAt:], o.Key)
	return hello
}

// visit connects to an observer, and sends a packet unless it is nil.
func visit(t *testing.T, o *Options, packet []byte) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		t.Cleanup(func() { unix.Close(fd) })
		err = fileio.Uninterrupted(func() error { return unix.Connect(fd, &unix.SockaddrUnix{Name: "@" + o.Name()}) })
	}
	if err == nil && packet != nil {
		err = fileio.Uninterrupted(func() error { return unix.Sendto(fd, packet, unix.MSG_NOSIGNAL, nil) })
	}
	if err != nil {
		t.Error(err)
	}
	return fd
}

// answered returns the descriptor that an observer sends, or -1 if it hangs up.
func answered(t *testing.T, conn int) int {
	t.Helper()
	minute := unix.NsecToTimeval(int64(time.Minute))
	_ = unix.SetsockoptTimeval(conn, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &minute)
	data, oob := make([]byte, 16), make([]byte, unix.CmsgSpace(4))
	var n, noob int
	err := fileio.Uninterrupted(func() (err error) {
		n, noob, _, _, err = unix.Recvmsg(conn, data, oob, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	switch {
	case err == unix.EAGAIN:
		t.Error("no answer in a minute")
	case err != nil && err != unix.ECONNRESET:
		t.Error(err)
	}
	if file := receivedFile(oob[:max(noob, 0)]); n > 0 && file != nil {
		t.Cleanup(func() { file.Close() })
		return int(file.Fd())
	}
	return -1
}

// received waits for a packet, and returns its length.
func received(conn int) (n int, err error) {
	err = fileio.Uninterrupted(func() (err error) {
		n, _, err = unix.Recvfrom(conn, make([]byte, 16), 0)
		return err
	})
	return n, err
}

// Only the processes of a recording get its memory, whatever user they are.
func TestKey(t *testing.T) {
	t.Parallel()
	o := Options{Session: uint64(time.Now().UnixNano()), Key: NewKey(), Output: filepath.Join(t.TempDir(), "%p")}
	runObserver(t, o)
	stranger := o
	stranger.Key = NewKey()
	none := o
	none.Key = ""
	request := append([]byte(schedMagic), make([]byte, schedRequestSize-len(schedMagic))...)
	binary.LittleEndian.PutUint64(request[16:], o.Session)
	try := func(who string) {
		for name, packet := range map[string][]byte{
			"another key": testHello(&stranger), "no key": testHello(&none), "a short packet": testHello(&o)[:ring.HelloKeyAt], "another protocol": []byte("GET / HTTP/1.1\r\n"),
		} {
			if answered(t, visit(t, &o, packet)) >= 0 {
				t.Errorf("%s with %s got the memory", who, name)
			}
		}
		if answered(t, visit(t, &o, testHello(&o))) < 0 {
			t.Errorf("%s with the key got no memory", who)
		}
	}
	try("root")
	testenv.AsNobody(t, func() {
		try("another user")
		conn := visit(t, &o, request)
		if n, err := received(conn); n > 0 || err != nil {
			t.Errorf("another user got an answer to a request for scheduler events: %d bytes, error %v", n, err)
		}
	})
}

// Only processes of the recording learn which functions of a file are selected, or name programs that were
// not recorded.
func TestKeyOfQuestions(t *testing.T) {
	t.Parallel()
	path, err := filepath.Abs(filepath.Join("..", "..", "testdata", "kvserver"))
	if err != nil {
		t.Fatal(err)
	}
	filter := &Filter{Func: regexp.MustCompile(".")}
	o := Options{Session: uint64(time.Now().UnixNano()), Key: NewKey(), Output: filepath.Join(t.TempDir(), "%p"), Filter: filter}
	runObserver(t, o)
	question := func(magic, key string) []byte {
		q := make([]byte, ring.QuestionSize)
		copy(q, magic)
		binary.LittleEndian.PutUint64(q[ring.QuestionSessionAt:], o.Session)
		copy(q[ring.QuestionPathAt:], path)
		copy(q[ring.QuestionKeyAt:], key)
		return q
	}
	heard := func(packet []byte) bool {
		conn := visit(t, &o, packet)
		n, err := received(conn)
		if err != nil && err != unix.ECONNRESET {
			t.Error(err)
		}
		return n > 0
	}
	try := func(who string) {
		for _, key := range []string{"", NewKey(), o.Key[:ring.KeySize-1]} {
			if answered(t, visit(t, &o, question(ring.SelectMagic, key))) >= 0 || heard(question(ring.LeftMagic, key)) {
				t.Errorf("%s with the key %q got an answer", who, key)
			}
		}
		if answered(t, visit(t, &o, question(ring.SelectMagic, o.Key))) < 0 || !heard(question(ring.LeftMagic, o.Key)) {
			t.Errorf("%s with the key got no answer", who)
		}
	}
	try("root")
	testenv.AsNobody(t, func() { try("another user") })
}

// testQuestion is a question of a process about an object.
func testQuestion(o *Options, path string, buildID []byte) []byte {
	q := make([]byte, ring.QuestionSize)
	copy(q, ring.SelectMagic)
	binary.LittleEndian.PutUint64(q[ring.QuestionSessionAt:], o.Session)
	binary.LittleEndian.PutUint32(q[ring.QuestionBuildIDSizeAt:], uint32(len(buildID)))
	copy(q[ring.QuestionBuildIDAt:], buildID)
	copy(q[ring.QuestionPathAt:], path)
	return q
}

// A process may ask about anything. What the observer keeps of that is limited, and wrong questions do not
// change the answers that other processes get.
func TestSelectionsAreLimited(t *testing.T) {
	t.Parallel()
	path, err := filepath.Abs(filepath.Join("..", "..", "testdata", "kvserver"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := symbolize.Load(path, symbolize.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	id, err := hex.DecodeString(table.Object().BuildID)
	if err != nil || len(id) == 0 {
		t.Fatalf("no build ID: %v", err)
	}
	ob := testObserver(t)
	ob.options.Filter = &Filter{Func: regexp.MustCompile(".")}
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	for i := range mostSelections + 100 {
		of := id
		if i > 0 {
			of = fmt.Appendf(nil, "of none %d", i)
		}
		if _, err := ob.answerSelect(os.Getpid(), testQuestion(&ob.options, fifo, of)); err == nil {
			t.Fatal("a FIFO has functions")
		}
	}
	if n := len(ob.selections.known); n > 0 {
		t.Errorf("%d wrong answers are kept", n)
	}
	want, err := ob.answerSelect(os.Getpid(), testQuestion(&ob.options, path, id))
	if err != nil || len(want) == 0 {
		t.Fatalf("got %q, %v", want, err)
	}
	for i := range mostSelections - 1 {
		ob.selections.known[strconv.Itoa(i)] = new(selection)
	}
	got, err := ob.answerSelect(os.Getpid(), testQuestion(&ob.options, path, id[:2]))
	if n := len(ob.selections.known); string(got) != string(want) || err != nil || n != mostSelections {
		t.Errorf("got %q, %v; %d answers are kept", got, err, n)
	}
	one := &selection{ids: make([]reader.FuncID, 1)}
	ob.selections.known["one"], ob.selections.selected = one, mostSelected
	if ob.selections.settle("one", path, one, false); ob.selections.known["one"] != nil {
		t.Error("the functions that are kept have no limit")
	}
}

// A process may ask anything.
func FuzzQuestions(f *testing.F) {
	var o Options
	path, err := filepath.Abs(filepath.Join("..", "..", "testdata", "kvserver"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(testQuestion(&o, path, []byte{1, 2, 3}))
	f.Add(testQuestion(&o, "a\nb", nil))
	f.Add(testQuestion(&o, strings.Repeat("x", ring.QuestionPathSize), make([]byte, 32)))
	f.Fuzz(func(t *testing.T, question []byte) {
		if len(question) != ring.QuestionSize {
			return
		}
		ob := testObserver(t)
		ob.options.Filter = &Filter{Exclude: regexp.MustCompile("^$")}
		ob.options.Session = ring.Fields(question).U64(ring.QuestionSessionAt)
		answer, err := ob.answerSelect(gonePID, question)
		if err == nil && !strings.HasPrefix(string(answer), "object /") {
			t.Errorf("got the answer %q", answer)
		}
		ob.leave(gonePID, question)
		ob.naming.Wait()
		ob.left.list()
	})
}

func TestLeftProgramsAreLimited(t *testing.T) {
	t.Parallel()
	var l leftPrograms
	for i := range mostLeft + 100 {
		path := strconv.Itoa(i % (mostLeft + 50))
		if l.begin(path) {
			l.settle(path, nil)
		}
	}
	l.settle("7", errors.New("7 cannot be recorded"))
	list := l.list()
	if len(l.why) != mostLeft || len(list) != 2 || list[0] != "7 cannot be recorded" || !strings.HasPrefix(list[1], "50 executions of further programs") {
		t.Errorf("%d programs are kept; got %q", len(l.why), list)
	}
}

// A process of the recording cannot change the size of the memory, which would end its observer.
func TestMemoryIsSealed(t *testing.T) {
	t.Parallel()
	a, err := ring.NewArena(new(ring.ArenaOptions), ring.SmallestArena)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	for _, size := range []int64{0, ring.SmallestArena - 4096, ring.SmallestArena + 4096} {
		if err := unix.Ftruncate(a.FD, size); err != unix.EPERM {
			t.Errorf("to %d bytes: got error %v", size, err)
		}
	}
	if _, err := unix.FcntlInt(uintptr(a.FD), unix.F_ADD_SEALS, unix.F_SEAL_FUTURE_WRITE); err != unix.EPERM {
		t.Errorf("another seal: got error %v", err)
	}
}

// Nobody waits for visitors who say nothing.
func TestSilentVisitors(t *testing.T) {
	t.Parallel()
	o := Options{Session: uint64(time.Now().UnixNano()), Key: NewKey(), Output: filepath.Join(t.TempDir(), "%p")}
	runObserver(t, o)
	testenv.AsNobody(t, func() {
		for range 4 * maxSilent {
			visit(t, &o, nil)
		}
	})
	if answered(t, visit(t, &o, testHello(&o))) < 0 {
		t.Error("no memory for a process of the recording") // one by one, it would take minutes
	}
}

// If the shared memory cannot be read, the observer says so, and goes on.
func TestUnreadableMemory(t *testing.T) {
	t.Parallel()
	ob := testObserver(t)
	ob.settled.L = &ob.mu
	a := makeArena(t, ob)
	a.bell = newBell(a.Word32(ring.ArenaBellAt))
	ob.arenas = append(ob.arenas, a)
	a.consume()
	if err := unix.Mprotect(a.Mem, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	a.run()
	if len(ob.arenas) != 0 || len(ob.problems) != 1 || len(ob.finished) != 1 || !strings.Contains(ob.finished[0].Problem, "memory") {
		t.Fatalf("observed %d, problems %v, finished %+v", len(ob.arenas), ob.problems, ob.finished)
	}
	trace, err := reader.Open(reader.Options{}, ob.finished[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	trace.Close()
}

// The kernel tells the processes that their observer has ended, whatever thread of it the Go runtime chose: it never ends
// the first one. So many keepers need all threads that there are.
func TestKeeper(t *testing.T) {
	t.Parallel()
	const keepers, ownerDied = 32, 0x40000000
	var words [keepers]*uint32
	var over [keepers]chan struct{}
	for i := range words {
		a, err := ring.NewArena(new(ring.ArenaOptions), ring.SmallestArena)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = unix.Munmap(a.Mem), unix.Close(a.FD) }()
		a.Keep()
		words[i], over[i] = a.Word32(ring.ArenaKeeperAt), a.Over
		if v := atomic.LoadUint32(words[i]); v == 0 || v&ownerDied != 0 {
			t.Errorf("while the observer lives: %#x", v)
		}
	}
	for i, word := range words {
		close(over[i])
		for end := time.Now().Add(time.Minute); atomic.LoadUint32(word)&ownerDied == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("thread %d of the observer, process %d, has ended, and the memory does not say so", atomic.LoadUint32(word), os.Getpid())
			}
		}
	}
}

// A program can name any process in its memory. The observer waits only for those that have the memory.
func TestForeignProcess(t *testing.T) {
	t.Parallel()
	for _, pid := range []int{1, os.Getpid()} {
		ob := testObserver(t)
		ob.settled.L = &ob.mu
		a := makeArena(t, ob)
		binary.LittleEndian.PutUint32(a.Mem[ring.ProcessAt(0)+ring.ProcessPIDAt:], uint32(pid))
		a.pid, a.inner, a.inode = pid, pid, inodeOf(a.FD)
		if _, err := os.ReadFile("/proc/1/maps"); err != nil {
			t.Skip(err)
		}
		observe(t, a)
		if !a.empty() {
			t.Errorf("the observer waits for process %d", pid)
		}
		a.Close()
	}
}

// Numbers that cannot be are damage, and not part of a sum.
func TestImplausibleNumbers(t *testing.T) {
	t.Parallel()
	ob := testObserver(t)
	ob.settled.L = &ob.mu
	a := makeArena(t, ob)
	defer a.Close()
	counters, ok := a.Offset(a.U64(ring.SlotAt(0)+ring.SlotCountersAt), 8*4)
	if !ok {
		t.Fatal("no counters")
	}
	profile, _ := a.Offset(a.U64(ring.SlotAt(1)+ring.SlotProfileAt), ring.ProfileSize)
	page, ok := a.Offset(a.U64(profile+ring.ProfilePagesAt), ring.PathPageSize)
	if !ok {
		t.Fatal("no profile")
	}
	places := map[string]uint64{
		"counter": counters + 8*4, "dropped": ring.SlotAt(0) + ring.SlotDroppedAt, "truncated": ring.SlotAt(0) + ring.SlotTruncatedAt, "waited": ring.SlotAt(1) + ring.SlotWaitedAt,
		"lost by the process": ring.ProcessAt(0) + ring.ProcessDroppedAt, "calls of a path": page + 8 + 80,
	}
	for _, at := range places {
		binary.LittleEndian.PutUint64(a.Mem[at:], 1<<63+5)
	}
	observe(t, a)
	trace, err := reader.Open(reader.Options{}, ob.finished[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	defer trace.Close()
	r := trace.Recording(0)
	if len(r.Counters) != 1 || r.Counters[0].Calls != 14 || len(r.Profiles) != 1 || r.Process.WaitedNS != 0 {
		t.Errorf("counters %v, %d profiles, waited %d", r.Counters, len(r.Profiles), r.Process.WaitedNS)
	}
	damaged := uint64(0)
	for _, l := range r.Losses {
		if l.Count > 10 {
			t.Errorf("%d times %s", l.Count, l.Cause)
		}
		damaged += l.Count
	}
	if damaged != uint64(len(places)) {
		t.Errorf("damage was found in %d places, want %d: %v", damaged, len(places), r.Losses)
	}
}

//go:build linux

package client

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/test/testenv"
	"github.com/xray-tools/xray/recorder"
)

// serve listens at an address instead of a runtime, and answers each command with the result of
// answer.
func serve(t *testing.T, address string, answer func(command string, files []*os.File) string) {
	t.Helper()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: address, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				return
			}
			command, rights := make([]byte, 64<<10), make([]byte, 256)
			n, nr, _, _, err := conn.ReadMsgUnix(command, rights)
			if err == nil {
				if a := answer(string(command[:n]), received(rights[:nr])); a != "" {
					conn.Write([]byte(a))
				}
			}
			conn.Close()
		}
	}()
}

// No answer is lost when the runtime closes the connection at once, as it does after most commands. The
// listener does not sleep, so that it often does so while the client reads.
func TestAnswerAndEnd(t *testing.T) {
	address := &unix.SockaddrUnix{Name: "@xray-test-answers-" + strconv.Itoa(os.Getpid())}
	listening, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(listening)
		err = errors.Join(unix.Bind(listening, address), unix.Listen(listening, 1))
	}
	if err != nil {
		t.Fatal(err)
	}
	const n = 50000
	go func() {
		command := make([]byte, 16)
		for range n {
			conn, _, err := unix.Accept4(listening, unix.SOCK_CLOEXEC)
			if err != nil {
				return
			}
			for err = unix.EAGAIN; err == unix.EAGAIN; {
				_, _, err = unix.Recvfrom(conn, command, unix.MSG_DONTWAIT)
			}
			_ = unix.Sendto(conn, []byte("{}"), unix.MSG_NOSIGNAL, nil)
			unix.Close(conn)
		}
	}()
	buf := make([]byte, 16)
	for i := range n {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: address.Name, Net: "unixpacket"})
		if err != nil {
			t.Fatal(err)
		}
		answer, err := converse(conn, "status", nil, buf)
		conn.Close()
		if err != nil || string(answer) != "{}" {
			t.Fatalf("answer %d: %q, %v", i, answer, err)
		}
	}
}

func received(rights []byte) (files []*os.File) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files
}

// own returns the address at which a runtime in this process would listen.
func own() string { return "@xray-recorder-" + strconv.Itoa(os.Getpid()) }

func dialOwn(t *testing.T) *Process {
	t.Helper()
	p, err := Dial(strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestClientAsksAndPassesFiles(t *testing.T) {
	serve(t, own(), func(command string, files []*os.File) string {
		for _, f := range files {
			f.WriteString(command)
			f.Close()
		}
		return `{"ok":true,"pid":7,"mode":"prune","stream":{"bytes":5,"limit":6},"refused":[{"path":"p","why":"w"}]}` + "\n"
	})
	path := filepath.Join(t.TempDir(), "out")
	file, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var s Status
	data, err := dialOwn(t).Do(context.Background(), &s, "snapshot last_ns=5", file)
	if err != nil {
		t.Fatal(err)
	}
	if s.PID != 7 || s.Mode != recorder.Prune || s.Stream == nil || s.Stream.Limit != 6 || len(s.Refused) != 1 {
		t.Errorf("got status %+v", s)
	}
	if !json.Valid(data) {
		t.Errorf("the raw answer is not JSON: %q", data)
	}
	if got, _ := os.ReadFile(path); string(got) != "snapshot last_ns=5" {
		t.Errorf("got file content %q", got)
	}
	if info, _ := os.Stat(path); info.Mode() != 0o600 {
		t.Errorf("got file mode %v, want 0600", info.Mode())
	}
}

func TestClientErrors(t *testing.T) {
	answers := map[string]string{
		"refuse": `{"ok":false,"error":"already recording"}`,
		"mute":   `{"ok":false}`,
		"babble": `hello`,
		"vanish": "",
	}
	serve(t, own(), func(command string, _ []*os.File) string { return answers[command] })
	for command, want := range map[string]string{
		"refuse": "already recording", "mute": "without a reason",
		"babble": "invalid response", "vanish": "without a response",
	} {
		_, err := dialOwn(t).Do(context.Background(), nil, command)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", command, err, want)
		}
	}
}

func TestClientGivesUpWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	release := make(chan struct{})
	defer close(release)
	serve(t, own(), func(string, []*os.File) string {
		cancel()
		<-release
		return ""
	})
	if _, err := dialOwn(t).Do(ctx, nil, "status"); err == nil {
		t.Error("no error")
	}
}

func TestClientWithoutRecorder(t *testing.T) {
	if _, err := dialOwn(t).Do(context.Background(), nil, "status"); !errors.Is(err, ErrNoRecorder) {
		t.Errorf("without a listener: got error %v", err)
	}
	for target, want := range map[string]string{
		"0": "neither", "-5": "neither", "x": "neither", "2000000000": "does not exist", "/nowhere/socket": "no such file",
	} {
		if _, err := Dial(target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Dial(%q): got error %v, want %q", target, err, want)
		}
	}
}

// Another process can take a process's abstract socket name first. The client notices.
func TestClientTrustsOnlyTheProcessItself(t *testing.T) {
	sleeper := exec.Command("sleep", "100")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	defer sleeper.Wait()
	defer sleeper.Process.Kill()
	pid := sleeper.Process.Pid
	asked := false
	serve(t, "@xray-recorder-"+strconv.Itoa(pid), func(string, []*os.File) string {
		asked = true
		return `{"ok":true}`
	})
	p, err := Dial(strconv.Itoa(pid))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Do(context.Background(), nil, "status"); !errors.Is(err, ErrNoRecorder) {
		t.Errorf("got error %v", err)
	}
	if asked {
		t.Error("the other process received the command")
	}
}

func TestClientTrustsOnlyTheOwnerOfASocket(t *testing.T) {
	testenv.NeedOtherUsers(t)
	dir, err := os.MkdirTemp("", "s") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "s")
	serve(t, path, func(string, []*os.File) string { return `{"ok":true}` })
	dial := func() error {
		p, err := Dial(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = p.Do(context.Background(), nil, "status")
		return err
	}
	if err := dial(); err != nil {
		t.Error(err)
	}
	if err := os.Chown(path, testenv.Nobody, -1); err != nil {
		t.Fatal(err)
	}
	if err := dial(); err == nil || !strings.Contains(err.Error(), "not connecting") {
		t.Errorf("got error %v", err)
	}
}

func TestAlive(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Dial(strconv.Itoa(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if !p.Alive() {
		t.Error("sleeping process: got dead, want alive")
	}
	cmd.Process.Kill()
	// The process is dead but not yet waited for.
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, cmd.Process.Pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("zombie: got alive, want dead")
	}
	cmd.Wait()
	if p.Alive() {
		t.Error("process that was waited for: got alive, want dead")
	}
}

func TestCreateFollowsNothing(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "target"), link); err != nil {
		t.Fatal(err)
	}
	if f, err := Create(link); !errors.Is(err, syscall.EEXIST) {
		f.Close()
		t.Errorf("got error %v", err)
	}
	if entries, _ := os.ReadDir(dir); !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == "link" }) || len(entries) != 1 {
		t.Errorf("got files %v", entries)
	}
}

// A process may answer anything.
func FuzzAnswer(f *testing.F) {
	for _, text := range []string{`{"ok":true,"version":1,"pid":5,"mode":"record","windows":{"length_ns":1},"threads":{"live":1}}`,
		`{"ok":false,"error":"no"}`, `{"ok":false}`, `{"objects":[{"path":"/bin/x","first":1,"last":9,"build_id":"ab"}]}`, `{"ok":true,"refused":[{"path":1}]}`, ""} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := answer(data, nil); err != nil && err.Error() == "" {
			t.Error("an error without a reason")
		}
		var s Status
		if answer(data, &s) == nil && answer(data, nil) != nil {
			t.Errorf("%q is an answer only with a result", data)
		}
		if objects, err := parseObjects(data); err == nil {
			again, err := json.Marshal(map[string]any{"objects": objects})
			if err != nil {
				t.Fatal(err)
			}
			if list, err := parseObjects(again); err != nil || len(list) != len(objects) {
				t.Errorf("got %d objects, then %d; %v", len(objects), len(list), err)
			}
		}
	})
}

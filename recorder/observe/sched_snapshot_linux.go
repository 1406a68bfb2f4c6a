package observe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xray-tools/xray/internal/fileio"
	"github.com/xray-tools/xray/internal/tracewrite"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/recorder/client"
	"github.com/xray-tools/xray/recorder/proc"
	"github.com/xray-tools/xray/recorder/ring"
)

// A request for the scheduler events of a process has the magic, and then as 64-bit numbers the session,
// the ID of the process, the TSC of the first event, and the TSC of the block. The answer is the reason
// why there are no events. If that is empty, a file with the block comes with it.
const (
	schedMagic       = "XRAY-SCHED-1\x00\x00\x00\x00"
	schedRequestSize = 48
	maxSchedReason   = 1 << 10
	// maxSchedBlock limits a block. It is more than an observer sends, but another program may answer.
	maxSchedBlock = 256 << 20
)

// answerSched sends the scheduler events of a process that are not in its trace yet.
func (ob *Observer) answerSched(v *visitor, request []byte) error {
	f := ring.Fields(request[len(schedMagic):])
	block, why := []byte(nil), ""
	switch pid := int(int32(f.U64(8))); {
	case f.U64(0) != ob.options.Session:
		return nil
	case ob.noSched != "":
		why = ob.noSched
	case ob.sched != nil:
		ob.sched.catchUp()
		if block = ob.sched.copy(pid, f.U64(16), f.U64(24)); block == nil {
			why = "xray record has none of this process"
		}
	}
	fd := -1
	if block != nil {
		file, err := memoryFile(block)
		if err != nil {
			return err
		}
		defer file.Close()
		fd = int(file.Fd())
	}
	return v.send(append([]byte{0}, why...), fd)
}

// memoryFile creates an unnamed file in memory. Its offset is 0.
func memoryFile(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("xray-sched", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "xray-sched")
	_, err = file.Write(data)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// copy returns the events of a process from a TSC on as a block of metadata, and leaves them for take. It
// returns nil if the process is not followed.
func (s *schedReader) copy(pid int, since, first uint64) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tracker == nil {
		return nil
	}
	t := s.tracker.Copy(int32(pid), since, s.horizon)
	if t == nil {
		return nil
	}
	t.Part.Origin = reader.SchedTracefs
	return tracewrite.AppendSched(nil, t.First, t.Tasks, &t.Part, first)
}

// AddSched appends the scheduler events of a process to a snapshot of its rings, which is open as t. It
// asks the process's observer for the events of the given time, or for all if last is 0. It returns
// their number, or why there are none although the process is recorded with scheduler events. If it is
// not, AddSched does nothing.
func AddSched(ctx context.Context, p *client.Process, t *reader.Trace, last time.Duration, snapshot *os.File) (events uint64, why string, err error) {
	r := t.Recording(0)
	if r == nil || r.Process.Session == 0 || p.PID == 0 || len(r.Clock.Anchors) == 0 {
		return 0, "", nil
	}
	since := uint64(0)
	if last > 0 {
		now := r.Clock.Anchors[len(r.Clock.Anchors)-1].TSC
		since = now - min(now, ring.Scale(uint64(last), r.Clock.Frequency, 1e9))
	}
	first, err := metadataTSC(t.Bytes(0))
	if err != nil {
		return 0, "", err
	}
	block, why, err := askSched(ctx, r.Process.Session, p.PID, since, first)
	if err != nil || block == nil {
		return 0, why, err
	}
	if _, err := snapshot.Seek(0, io.SeekEnd); err != nil {
		return 0, "", err
	}
	if _, err := snapshot.Write(block); err != nil {
		return 0, "", err
	}
	return schedIn(block), "", nil
}

// metadataTSC returns the TSC of the metadata that a snapshot begins with. Other blocks get the same
// TSC, because llvm-xray refuses traces with blocks that are earlier than the first one.
func metadataTSC(snapshot io.ReaderAt) (uint64, error) {
	head := make([]byte, 128)
	n, err := snapshot.ReadAt(head, 0)
	if err != nil && err != io.EOF || n < 32 {
		return 0, errors.Join(errors.New("the snapshot has no header"), err)
	}
	h := reader.Header{Version: 5, Type: reader.FDR, ByteOrder: binary.LittleEndian}
	for b := head[32:n]; len(b) > 0; {
		var r reader.Record
		size, err := reader.ParseRecord(b, &h, &r)
		if err != nil {
			return 0, err
		}
		if r.Kind == reader.NewCPUID {
			return r.TSC, nil
		}
		b = b[size:]
	}
	return 0, errors.New("the snapshot does not begin with metadata")
}

// schedIn returns the number of events in a block.
func schedIn(block []byte) (n uint64) {
	if r, err := reader.ParseRecording(block); err == nil {
		n = r.Sched.Events()
	}
	return n
}

// askSched asks an observer for scheduler events. It returns nothing if there is no observer, as for
// programs with the recorder linked in.
func askSched(ctx context.Context, session uint64, pid int, since, first uint64) (block []byte, why string, err error) {
	options := Options{Session: session}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, "", err
	}
	defer unix.Close(fd)
	wait := 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		wait = min(wait, max(time.Millisecond, time.Until(deadline)))
	}
	limit := unix.NsecToTimeval(int64(wait))
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
	if fileio.Uninterrupted(func() error { return unix.Connect(fd, &unix.SockaddrUnix{Name: "@" + options.Name()}) }) != nil {
		return nil, "", nil
	}
	// After an observer has ended, another user can take its name.
	if peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err != nil || !isOwner(peer.Uid) && !isUserOf(peer.Uid, pid) {
		return nil, "", err
	}
	request := []byte(schedMagic)
	for _, v := range []uint64{session, uint64(pid), since, first} {
		request = binary.LittleEndian.AppendUint64(request, v)
	}
	if fileio.Uninterrupted(func() error { return unix.Sendmsg(fd, request, nil, nil, unix.MSG_NOSIGNAL) }) != nil {
		return nil, "", nil
	}
	answer, oob := make([]byte, 1+maxSchedReason), make([]byte, unix.CmsgSpace(4))
	var n, noob int
	err = fileio.Uninterrupted(func() (err error) {
		n, noob, _, _, err = unix.Recvmsg(fd, answer, oob, unix.MSG_CMSG_CLOEXEC)
		return err
	})
	if err != nil {
		return nil, "xray record does not respond", nil
	}
	if n == 0 {
		return nil, "", nil
	}
	file := receivedFile(oob[:noob])
	if file == nil {
		return nil, string(answer[1:n]), nil
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, "xray record sent no file", err
	}
	block, err = io.ReadAll(io.LimitReader(file, maxSchedBlock+1))
	if err == nil && len(block) > maxSchedBlock {
		err = fmt.Errorf("more than %d bytes of scheduler events", maxSchedBlock)
	}
	return block, "", err
}

// isUserOf reports whether a process belongs to a user.
func isUserOf(uid uint32, pid int) bool {
	fields, err := proc.StatusFields(pid)
	return err == nil && len(fields["Uid"]) > 0 && fields["Uid"][0] == strconv.FormatUint(uint64(uid), 10)
}

// receivedFile returns the file that came with a message, or nil.
func receivedFile(oob []byte) *os.File {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		return nil
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil
	}
	return os.NewFile(uintptr(fds[0]), "xray-sched")
}

//go:build linux

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func init() { commands["fake-recorder"] = fakeRecorder }

// fakeRecorder is a program for scripts that stands in for a process with the recorder:
//
//	fake-recorder ANSWERS COMMAND [ARGUMENT...]
//
// It runs a command, replacing PID in its arguments by its own process ID, and answers control
// requests until the command ends. ANSWERS is a JSON object that maps the first word of a request
// to the answer. fakeRecorder writes the command's requests and the contents of files passed with
// them to the file "asked". To files of the request "snapshot" it writes "a trace". To those of
// "counters" and "objects" it writes the files of these names.
func fakeRecorder() {
	answers := make(map[string]json.RawMessage)
	text, err := os.ReadFile(os.Args[1])
	if err == nil {
		err = json.Unmarshal(text, &answers)
	}
	if err != nil {
		fatal(err)
	}
	pid := strconv.Itoa(os.Getpid())
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: "@xray-recorder-" + pid, Net: "unixpacket"})
	if err != nil {
		fatal(err)
	}
	asked, err := os.OpenFile("asked", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		fatal(err)
	}
	go func() {
		for {
			conn, err := l.AcceptUnix()
			if err != nil {
				fatal(err)
			}
			answerFake(conn, asked, answers)
		}
	}()
	args := os.Args[2:]
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "PID", pid)
	}
	cmd := exec.Command(args[0], args[1:]...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	hidePID := func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(pid), []byte("PID")) }
	os.Stdout.Write(hidePID(stdout.Bytes()))
	os.Stderr.Write(hidePID(stderr.Bytes()))
	if err != nil {
		os.Exit(max(cmd.ProcessState.ExitCode(), 1))
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(3)
}

// isOurs reports whether the other end is the command. Commands of other tests may ask all processes.
func isOurs(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	ours := false
	_ = raw.Control(func(fd uintptr) {
		peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			return
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", peer.Pid))
		ours = strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid()))
	})
	return ours
}

func answerFake(conn *net.UnixConn, asked io.Writer, answers map[string]json.RawMessage) {
	defer conn.Close()
	command, rights := make([]byte, 64<<10), make([]byte, 256)
	n, nr, _, _, err := conn.ReadMsgUnix(command, rights)
	if err != nil {
		return
	}
	line := string(command[:n])
	if isOurs(conn) {
		fmt.Fprintln(asked, line)
	}
	word, _, _ := strings.Cut(line, " ")
	messages, _ := unix.ParseSocketControlMessage(rights[:nr])
	for i := range messages {
		fds, _ := unix.ParseUnixRights(&messages[i])
		for _, fd := range fds {
			f := os.NewFile(uintptr(fd), "received")
			switch word {
			case "snapshot":
				f.WriteString("a trace")
			case "counters", "objects":
				data, _ := os.ReadFile(word)
				f.Write(data)
			case "filter":
				io.Copy(asked, f)
			}
			f.Close()
		}
	}
	if a, ok := answers[word]; ok {
		var one bytes.Buffer
		json.Compact(&one, a)
		conn.Write(one.Bytes())
	}
}

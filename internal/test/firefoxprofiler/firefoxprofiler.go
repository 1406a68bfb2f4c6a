// Package firefoxprofiler lets tests load our output into the Firefox Profiler: the server of its
// command-line tool, which contains the code of the page. script/setup fetches it.
package firefoxprofiler

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// patience is the time limit for the profiler in a test.
const patience = 2 * time.Minute

// Profiler is a profiler with a profile. Use it on one goroutine only.
type Profiler struct {
	t       testing.TB
	conn    net.Conn
	answers *bufio.Reader
}

// Open loads a profile from a file. It skips the test without the profiler, which ends with the
// test.
func Open(t testing.TB, profile string) *Profiler {
	t.Helper()
	testenv.Need(t, "node")
	script := testenv.Fetched(t, "profiler-cli/package/dist/profiler-cli.js")
	// The path of a socket must be short, and t.TempDir's is not.
	dir, err := os.MkdirTemp("", "profiler")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("node", script, "--daemon", profile, "--session", "test")
	cmd.Env = append(os.Environ(), "PROFILER_CLI_SESSION_DIR="+dir)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
		os.RemoveAll(dir)
	})
	p := &Profiler{t: t}
	deadline := time.Now().Add(patience)
	for p.conn == nil {
		if p.conn, err = net.Dial("unix", filepath.Join(dir, "test.sock")); err == nil {
			break
		}
		select {
		case <-ended:
			t.Fatalf("the profiler has ended: %s", log.Bytes())
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("the profiler does not listen: %v", err)
		}
	}
	t.Cleanup(func() { p.conn.Close() })
	if err := p.conn.SetDeadline(deadline); err != nil {
		t.Fatal(err)
	}
	p.answers = bufio.NewReader(p.conn)
	for status := ""; status != "ready"; time.Sleep(10 * time.Millisecond) {
		status, _ = p.send(map[string]any{"type": "status"})
	}
	return p
}

// Ask sends a command, as the command-line tool does, and stores its result in result as
// encoding/json does.
func (p *Profiler) Ask(command map[string]any, result any) {
	p.t.Helper()
	_, answer := p.send(map[string]any{"type": "command", "command": command})
	if err := json.Unmarshal(answer, result); err != nil {
		p.t.Fatalf("the Firefox Profiler answers %v: %v in %.1000s", command, err, answer)
	}
}

// send sends a message and returns the kind of the answer, and its result.
func (p *Profiler) send(message map[string]any) (kind string, result json.RawMessage) {
	p.t.Helper()
	line, err := json.Marshal(message)
	if err == nil {
		_, err = p.conn.Write(append(line, '\n'))
	}
	var answer struct {
		Type, Error string
		Result      json.RawMessage
	}
	if err == nil {
		line, err = p.answers.ReadBytes('\n')
	}
	if err == nil {
		err = json.Unmarshal(line, &answer)
	}
	if err != nil || answer.Type == "error" {
		p.t.Fatalf("the Firefox Profiler, asked %v: %v %s", message, err, answer.Error)
	}
	return answer.Type, answer.Result
}

package launch

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
)

// partner is a process of this program that does a part of record's work. It has a session of its
// own, so that signals that end record do not end it. Its standard input begins with its options,
// a line of JSON. When it is ready, it answers with a word, followed by what it cannot do.
type partner struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// newPartner prepares the process of a hidden command.
func newPartner(command string) (*partner, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &partner{cmd: exec.Command(self, command)}
	p.cmd.Args[0] = os.Args[0]
	p.cmd.SysProcAttr = newSession()
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, nil
}

// send writes the options to the process, and returns its answer without the word.
func (p *partner) send(options any, word string) (cannot string, err error) {
	line, err := json.Marshal(options)
	if err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(p.in, "%s\n", line); err != nil {
		return "", err
	}
	answer, err := p.out.ReadString('\n')
	return strings.TrimSpace(strings.TrimPrefix(answer, word)), err
}

// readOptions reads, in a partner, the options that send writes.
func readOptions(in *bufio.Scanner, options any) error {
	if !in.Scan() {
		return cmp.Or(in.Err(), io.ErrUnexpectedEOF)
	}
	return json.Unmarshal(in.Bytes(), options)
}

// outliveRecord ignores the signals that end record.
func outliveRecord() {
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
}

// ready reports that the partner is ready, and what it cannot do.
func ready(out io.Writer, word, cannot string) {
	fmt.Fprintln(out, strings.TrimSpace(word+" "+strings.ReplaceAll(cannot, "\n", ": ")))
}

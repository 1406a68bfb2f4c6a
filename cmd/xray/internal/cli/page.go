package cli

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// ToTerminal reports whether output to path goes to a terminal.
func (s *Streams) ToTerminal(path string) bool {
	return (path == "" || path == "-") && IsTerminal(s.Stdout.Raw)
}

// TerminalWidth returns the value of COLUMNS, or else the width of the terminal w, or else 80.
func TerminalWidth(w any) int {
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	if f, ok := w.(*os.File); ok {
		if n, _, err := term.GetSize(int(f.Fd())); err == nil && n > 0 {
			return n
		}
	}
	return 80
}

// Page has f write to the user's pager, or to the terminal if there is none. As with git,
// $PAGER chooses the pager, "" and "cat" mean none, and less ends at once if everything fits
// on the screen.
func (s *Streams) Page(f func(io.Writer) error) error {
	pager, ok := os.LookupEnv("PAGER")
	if !ok {
		pager = "less"
	}
	if pager = strings.TrimSpace(pager); pager == "" || pager == "cat" {
		return s.writeTerminal(f)
	}
	if _, err := exec.LookPath(strings.Fields(pager)[0]); err != nil {
		return s.writeTerminal(f)
	}
	cmd := exec.Command("sh", "-c", pager)
	cmd.Stdout, cmd.Stderr = s.Stdout.Raw, s.Stderr.Raw
	cmd.Env = os.Environ()
	if _, ok := os.LookupEnv("LESS"); !ok {
		cmd.Env = append(cmd.Env, "LESS=FRX")
	}
	to, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	// The pager takes Ctrl-C, and xray ends when it does.
	signal.Ignore(os.Interrupt)
	defer signal.Reset(os.Interrupt)
	text := &escaper{w: to, color: true}
	err = errors.Join(f(text), text.flush(), to.Close()) // EPIPE: the user has seen enough
	return errors.Join(err, cmd.Wait())
}

// writeTerminal has f write to standard output, whose escape sequences may pass.
func (s *Streams) writeTerminal(f func(io.Writer) error) error {
	return s.toStdout(func(w io.Writer) error {
		text := &escaper{w: w, color: true}
		return errors.Join(f(text), text.flush())
	})
}

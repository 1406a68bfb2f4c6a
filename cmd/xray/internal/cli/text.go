package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/report"
)

// Text is standard output or standard error. Its Write is for text: control
// characters other than tab and newline, invalid UTF-8 and characters that change the
// direction of writing come out escaped, so that no name in a trace or in a binary can
// control a terminal. Each Write is a whole message.
//
// Only [Streams.WriteData], the progress shown on a terminal and programs that xray starts
// use Raw.
type Text struct{ Raw io.Writer }

func (t Text) Write(p []byte) (int, error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	e := escaper{w: t.Raw}
	if _, err := e.Write(p); err != nil {
		return 0, err
	}
	return len(p), e.flush()
}

// check returns an error if nothing can be written.
func (t Text) check() error {
	if f, ok := t.Raw.(*os.File); ok && isClosed(f) {
		return errors.New("standard output is closed: write to a file with -o FILE")
	}
	return nil
}

// escaper is a stream of text on its way to w. See [Text].
type escaper struct {
	w     io.Writer
	color bool   // lets the sequences of reports pass
	part  []byte // the beginning of a character whose end is to come
	buf   []byte
}

// Write consumes all of p unless w fails.
func (e *escaper) Write(p []byte) (int, error) {
	if len(e.part) == 0 && plainText(p) == len(p) {
		return e.w.Write(p)
	}
	n := len(p)
	text := p
	if len(e.part) > 0 {
		text = append(e.part, p...)
		e.part = nil
	}
	whole := len(text) - max(unfinished(text), e.begun(text))
	e.part = append(e.part, text[whole:]...)
	return n, e.pass(text[:whole])
}

// pass writes text that ends with a complete character.
func (e *escaper) pass(text []byte) error {
	e.buf = e.buf[:0]
	for len(text) > 0 {
		n := plainText(text)
		e.buf = append(e.buf, text[:n]...)
		if text = text[n:]; len(text) > 0 {
			if n := e.sequence(text); n > 0 {
				e.buf = append(e.buf, text[:n]...)
				text = text[n:]
				continue
			}
			_, n = utf8.DecodeRune(text)
			e.buf = append(e.buf, texttab.Printable(string(text[:n]))...)
			text = text[n:]
		}
	}
	_, err := e.w.Write(e.buf)
	return err
}

// sequence returns the length of the permitted escape sequence at the start of text, or 0. Text
// from a trace contains none, because reports escape it first.
func (e *escaper) sequence(text []byte) int {
	if !e.color {
		return 0
	}
	for _, s := range []string{report.Bold, report.Plain} {
		if bytes.HasPrefix(text, []byte(s)) {
			return len(s)
		}
	}
	return 0
}

// begun returns the number of bytes at the end of text that may begin such a sequence.
func (e *escaper) begun(text []byte) int {
	for n := len(report.Plain) - 1; e.color && n > 0; n-- {
		for _, s := range []string{report.Bold, report.Plain} {
			if bytes.HasSuffix(text, []byte(s[:n])) {
				return n
			}
		}
	}
	return 0
}

// flush writes a character that was never completed.
func (e *escaper) flush() error {
	if len(e.part) == 0 {
		return nil
	}
	err := e.pass(e.part)
	e.part = nil
	return err
}

// plainText returns the number of bytes at the start of p that need no escapes, whatever
// follows.
func plainText(p []byte) int {
	for i, c := range p {
		if c >= 0x7f || c < ' ' && c != '\n' && c != '\t' {
			return i
		}
	}
	return len(p)
}

// unfinished returns the number of bytes at the end of p that may begin a character.
func unfinished(p []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(p); n++ {
		if last := p[len(p)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return n
			}
			return 0
		}
	}
	return 0
}

// Say writes a note of one line to standard error.
func (s *Streams) Say(format string, args ...any) {
	fmt.Fprintf(s.Stderr, "xray: %s\n", texttab.Printable(fmt.Sprintf(format, args...)))
}

// ShortList joins words by commas, for messages. It omits all after the first most.
func ShortList(words []string, most int) string {
	if len(words) > most {
		words = append(slices.Clone(words[:most]), "...")
	}
	return strings.Join(words, ", ")
}

//go:build linux && amd64

package real

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// driveLines writes n lines to a program that answers each by a line, after one call
// of the function.
func driveLines(n int, function string) func(*session) (answer, error) {
	return func(s *session) (answer, error) {
		text, err := converse(s.stdin, s.stdout, n, func(i int) string { return fmt.Sprintf("%d\n", i) })
		return answer{text, map[string]int64{function: int64(n)}}, err
	}
}

// converse asks n questions, each when the one before it was answered by a line.
func converse(w io.Writer, r *bufio.Reader, n int, question func(int) string) (string, error) {
	var b strings.Builder
	for i := range n {
		if _, err := io.WriteString(w, question(i)); err != nil {
			return "", err
		}
		line, err := r.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("after %d answers: %w", i, err)
		}
		b.WriteString(line)
	}
	return b.String(), nil
}

//go:build linux && amd64

package real

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// driveLines writes n lines to a program that answers each with a line after one call of the
// function.
func driveLines(n int, function string) func(*session) (answer, error) {
	return func(s *session) (answer, error) {
		n := n * s.times
		text, err := s.converse(s.stdin, s.stdout, n, func(i int) string { return fmt.Sprintf("%d\n", i) }, function)
		return answer{text, map[string]int64{function: int64(n)}}, err
	}
}

// converse asks n questions, each after the answer to the previous one. For each, the program calls
// the functions once before it answers.
func (s *session) converse(w io.Writer, r *bufio.Reader, n int, question func(int) string, functions ...string) (string, error) {
	var b strings.Builder
	for i := range n {
		s.tally.ask(1, functions...)
		if _, err := io.WriteString(w, question(i)); err != nil {
			return "", err
		}
		line, err := r.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("after %d answers: %w", i, err)
		}
		s.tally.answer(1, functions...)
		b.WriteString(line)
	}
	return b.String(), nil
}

// A tally counts the calls that a driver asked for, and those that it knows were made because it
// got an answer. Its methods are safe for concurrent use.
type tally struct {
	mu              sync.Mutex
	asked, answered map[string]int64
	answers         int64
}

func (t *tally) ask(n int64, functions ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, f := range functions {
		t.asked[f] += n
	}
}

func (t *tally) answer(n int64, functions ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.answers += n
	for _, f := range functions {
		t.answered[f] += n
	}
}

func (t *tally) total() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.answers
}

// driveRedis sends commands, makes a child save the data, and asks how many commands of each kind
// there were.
func driveRedis(s *session) (answer, error) {
	c, err := s.dial()
	if err != nil {
		return answer{}, err
	}
	defer c.Close()
	r := bufio.NewReader(c)
	var text strings.Builder
	for _, q := range []struct {
		question  func(int) string
		functions []string
	}{
		{func(i int) string { return fmt.Sprintf("set key:%d %d\r\n", i%100, i) }, []string{"setCommand"}},
		{func(i int) string { return fmt.Sprintf("incr key:%d\r\n", i%100) }, []string{"incrCommand"}},
		{func(i int) string { return fmt.Sprintf("lpush list %d\r\n", i) }, []string{"lpushCommand"}},
		{func(i int) string { return fmt.Sprintf("zadd sorted %d member:%d\r\n", i*31%97, i%50) }, []string{"zaddCommand"}},
		{func(i int) string { return "eval \"return redis.call('incr','script')\" 0\r\n" }, []string{"evalCommand", "incrCommand"}},
	} {
		lines, err := s.converse(c, r, 500*s.times, q.question, q.functions...)
		if err != nil {
			return answer{}, err
		}
		text.WriteString(lines)
	}
	if _, err := s.converse(c, r, 1, func(int) string { return "bgsave\r\n" }); err != nil {
		return answer{}, err
	}
	saved := regexp.MustCompile(`rdb_bgsave_in_progress:0[^.]*rdb_saves:1\r`)
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		info, err := s.redisInfo(c, r, "persistence")
		if err != nil {
			return answer{}, err
		}
		if saved.MatchString(info) {
			break
		}
		if time.Now().After(end) {
			return answer{}, fmt.Errorf("the data were not saved:\n%s", info)
		}
	}
	info, err := s.redisInfo(c, r, "commandstats")
	if err != nil {
		return answer{}, err
	}
	calls := map[string]int64{"rdbSaveRio": 1}
	for _, m := range regexp.MustCompile(`cmdstat_(set|incr|lpush|zadd|eval):calls=(\d+)`).FindAllStringSubmatch(info, -1) {
		if calls[m[1]+"Command"], err = strconv.ParseInt(m[2], 10, 64); err != nil {
			return answer{}, err
		}
	}
	return answer{text.String(), calls}, nil
}

func (s *session) redisInfo(c io.Writer, r *bufio.Reader, section string) (string, error) {
	head, err := s.converse(c, r, 1, func(int) string { return "info " + section + "\r\n" })
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(head, "$")))
	if err != nil {
		return "", err
	}
	body := make([]byte, n+2)
	_, err = io.ReadFull(r, body)
	return string(body), err
}

// driveMemcached stores and gets values over several connections, so that all threads have work.
func driveMemcached(s *session) (answer, error) {
	var text strings.Builder
	for range 4 {
		c, err := s.dial()
		if err != nil {
			return answer{}, err
		}
		defer c.Close()
		r := bufio.NewReader(c)
		stored, err := s.converse(c, r, 500*s.times, func(i int) string { return fmt.Sprintf("set key%d 0 0 5\r\n%05d\r\n", i, i) }, "complete_nread_ascii")
		if err != nil {
			return answer{}, err
		}
		text.WriteString(stored)
		got, err := s.converse(c, r, 500*s.times, func(i int) string { return fmt.Sprintf("get missing%d\r\n", i) }, "process_get_command")
		if err != nil {
			return answer{}, err
		}
		text.WriteString(got)
	}
	c, err := s.dial()
	if err != nil {
		return answer{}, err
	}
	defer c.Close()
	if _, err := io.WriteString(c, "stats\r\n"); err != nil {
		return answer{}, err
	}
	calls := map[string]int64{}
	functions := map[string]string{"cmd_set": "complete_nread_ascii", "cmd_get": "process_get_command"}
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return answer{}, err
		}
		fields := strings.Fields(line)
		if fields[0] == "END" {
			break
		}
		if f, ok := functions[fields[1]]; ok {
			if calls[f], err = strconv.ParseInt(fields[2], 10, 64); err != nil {
				return answer{}, err
			}
		}
	}
	return answer{text.String(), calls}, nil
}

// driveNginx gets a file repeatedly from all workers while the server replaces its workers. The
// server's log has the number of requests.
func driveNginx(s *session) (answer, error) {
	c, err := s.dial()
	if err != nil {
		return answer{}, err
	}
	c.Close()
	const clients = 4
	requests := 200 * s.times
	var text strings.Builder
	for round := range 3 {
		if round > 0 {
			if err := syscall.Kill(s.programs()[0].pid, syscall.SIGHUP); err != nil {
				return answer{}, err
			}
		}
		answers := make([]string, clients)
		failures := make([]error, clients)
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() { answers[i], failures[i] = s.getAll(requests, "ngx_http_static_handler") })
		}
		wg.Wait()
		if err := errors.Join(failures...); err != nil {
			return answer{}, err
		}
		text.WriteString(strings.Join(answers, ""))
	}
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		log, err := os.ReadFile(filepath.Join(s.dir, "logs", "access.log"))
		if err != nil {
			return answer{}, err
		}
		if n := strings.Count(string(log), "\n"); n == 3*clients*requests {
			return answer{text.String(), map[string]int64{"ngx_http_log_handler": int64(n)}}, nil
		} else if time.Now().After(end) {
			return answer{}, fmt.Errorf("%d requests in the log", n)
		}
	}
}

// getAll alternately gets a file and a missing one, with its own client. The program calls the
// function at least once before each answer.
func (s *session) getAll(requests int, function string) (string, error) {
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	var text strings.Builder
	for i := range requests {
		name := "load.lua"
		if i%3 == 0 {
			name = "missing"
		}
		for tries := 0; ; tries++ {
			resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/%s", s.port, name))
			if err != nil && tries < 10 && !errors.Is(err, os.ErrDeadlineExceeded) {
				continue // an old worker closed the idle connection
			}
			if err != nil {
				return "", err
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				return "", err
			}
			s.tally.answer(1, function)
			fmt.Fprintln(&text, resp.Status, len(body))
			break
		}
	}
	return text.String(), nil
}

// drivePostgres calls functions of PL/pgSQL from several clients, and asks how many calls there
// were.
func drivePostgres(s *session) (answer, error) {
	c, err := s.dial()
	if err != nil {
		return answer{}, err
	}
	c.Close()
	psql := func(commands ...string) (string, error) {
		args := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(s.port), "-U", "tester", "-AtqX", "postgres"}
		for _, c := range commands {
			args = append(args, "-c", c)
		}
		out, err := exec.Command(filepath.Join(s.src, "installed", "bin", "psql"), args...).CombinedOutput()
		return string(out), err
	}
	// The server is starting up as long as psql fails.
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		out, err := psql("select 1")
		if err == nil {
			break
		}
		if time.Now().After(end) {
			return answer{}, fmt.Errorf("psql: %w: %s", err, out)
		}
	}
	const clients = 4
	text, err := psql(`create function total(n int) returns int language plpgsql as $$
		declare s int := 0; begin for i in 1..least(n, 20) loop s := s + i; end loop;
		begin perform 1 / (n % 3); exception when division_by_zero then s := -s; end; return s; end $$`)
	if err != nil {
		return answer{}, errors.New(text)
	}
	answers := make([]string, clients)
	failures := make([]error, clients)
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for range s.times {
				s.tally.ask(500, "plpgsql_call_handler")
				out, err := psql("select sum(total(i)) from generate_series(1, 500) i")
				if answers[i] += out; err != nil {
					failures[i] = fmt.Errorf("psql: %w: %s", err, out)
					return
				}
				s.tally.answer(500, "plpgsql_call_handler")
			}
			s.tally.ask(2, "plpgsql_call_handler")
			out, _ := psql("select total(7)", "select 1 / 0", "select total(8)") // the division fails
			answers[i] += out
		})
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		return answer{}, err
	}
	text = strings.Join(answers, "")
	calls := int64(clients * (500*s.times + 2))
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		out, err := psql("select calls from pg_stat_user_functions")
		if err != nil {
			return answer{}, errors.New(out)
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64); err == nil && n >= calls {
			// Each call of the function makes the server divide once.
			return answer{text, map[string]int64{"plpgsql_call_handler": n, "int4mod": n}}, nil
		}
		if time.Now().After(end) {
			return answer{}, fmt.Errorf("the statistics have %s of %d calls", out, calls)
		}
	}
}

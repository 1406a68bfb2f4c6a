//go:build linux && amd64

package real

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// driveHaproxy gets pages of a server of its own through the proxy, from several clients, while the
// master replaces its worker. The old worker still has a request then, and must finish it. The
// workers' statistics have the number of requests.
func driveHaproxy(s *session) (answer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return answer{}, err
	}
	arrived, release := make(chan struct{}), make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/missing":
			http.NotFound(w, r)
		case "/slow":
			arrived <- struct{}{}
			<-release
			fallthrough
		default:
			io.WriteString(w, strings.Repeat("page ", 100))
		}
	})}
	go server.Serve(listener)
	defer server.Close()
	path := filepath.Join(s.dir, "backend")
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	if err := errors.Join(os.WriteFile(path+".new", []byte(port), 0o644), os.Rename(path+".new", path)); err != nil {
		return answer{}, err
	}
	const clients, reloads = 4, 2
	requests := 150 * s.times
	var text strings.Builder
	var total int64
	worker := 0
	for round := range reloads + 1 {
		if worker, err = s.haproxyWorker(worker); err != nil {
			return answer{}, err
		}
		answers := make([]string, clients)
		failures := make([]error, clients)
		var wg sync.WaitGroup
		for i := range clients {
			wg.Go(func() { answers[i], failures[i] = s.getAll(requests, "http_create_txn") })
		}
		wg.Wait()
		if err := errors.Join(failures...); err != nil {
			return answer{}, err
		}
		text.WriteString(strings.Join(answers, ""))
		slow := make(chan error, 1)
		go func() { slow <- s.getSlow() }()
		select {
		case <-arrived:
		case err := <-slow:
			return answer{}, fmt.Errorf("the slow page: %w", err)
		}
		n, err := s.haproxyRequests()
		if err != nil {
			return answer{}, err
		}
		total += n
		if round < reloads {
			if err := syscall.Kill(s.programs()[0].pid, syscall.SIGUSR2); err != nil {
				return answer{}, err
			}
			// The next worker serves already.
			if _, err := s.haproxyWorker(worker); err != nil {
				return answer{}, err
			}
		}
		release <- struct{}{}
		if err := <-slow; err != nil {
			return answer{}, fmt.Errorf("the slow page: %w", err)
		}
		if round < reloads {
			if err := s.awaitGone(worker); err != nil {
				return answer{}, err
			}
		}
	}
	if least := int64((reloads + 1) * (clients*requests + 1)); total < least {
		return answer{}, fmt.Errorf("haproxy had %d requests, fewer than the %d answers", total, least)
	}
	// After each start with a configuration, the master executes itself again only to wait.
	return answer{text.String(), map[string]int64{
		"http_create_txn": total, "mworker_reload": reloads, "mworker_reexec": 1 + 2*reloads, "main": 2 + 2*reloads,
	}}, nil
}

func (s *session) getSlow() error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/slow", s.port))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || len(body) != 500 {
		return fmt.Errorf("%d bytes, %w", len(body), err)
	}
	return nil
}

// haproxyAsk sends a command to a socket of the master or of the current worker.
func (s *session) haproxyAsk(socket, command string) (string, error) {
	// The path itself may be too long for a socket.
	dir, err := os.Open(s.dir)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	c, err := net.Dial("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socket))
	if err != nil {
		return "", err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := io.WriteString(c, command+"\n"); err != nil {
		return "", err
	}
	out, err := io.ReadAll(c)
	return string(out), err
}

// haproxyWorker waits until another worker than the old one answers, and returns its process ID. The
// master answers then, too. Before that, it ignores SIGUSR2, or SIGUSR2 ends it.
func (s *session) haproxyWorker(old int) (int, error) {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		info, err := s.haproxyAsk("stats.sock", "show info")
		_, rest, _ := strings.Cut(info, "\nPid: ")
		line, _, _ := strings.Cut(rest, "\n")
		if pid, convErr := strconv.Atoi(line); err == nil && convErr == nil && pid != old {
			if list, err := s.haproxyAsk("master.sock", "show proc;quit"); err == nil && strings.Contains(list, line) {
				return pid, nil
			}
		}
		if time.Now().After(end) {
			return 0, fmt.Errorf("no new worker after %d: %q, %w", old, info, err)
		}
		select {
		case state := <-s.ended:
			s.ended <- state
			return 0, fmt.Errorf("the program has ended: %v", state)
		default:
		}
	}
}

// haproxyRequests asks the current worker how many requests it has had.
func (s *session) haproxyRequests() (int64, error) {
	out, err := s.haproxyAsk("stats.sock", "show stat")
	if err != nil {
		return 0, err
	}
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(out, "# "))).ReadAll()
	if err != nil || len(rows) == 0 {
		return 0, fmt.Errorf("show stat: %q, %w", out, err)
	}
	name, total := slices.Index(rows[0], "svname"), slices.Index(rows[0], "req_tot")
	for _, row := range rows[1:] {
		if row[name] == "FRONTEND" {
			return strconv.ParseInt(row[total], 10, 64)
		}
	}
	return 0, fmt.Errorf("show stat: no frontend in %q", out)
}

// awaitGone waits until a process of the program has ended.
func (s *session) awaitGone(pid int) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if !slices.ContainsFunc(s.programs(), func(p process) bool { return p.pid == pid }) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("process %d does not end", pid)
		}
	}
}

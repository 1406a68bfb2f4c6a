// Package browser lets tests see what a real browser makes of our output. It
// drives Chromium without a window, over the pipes of the DevTools protocol, and
// needs no network.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/xray-tools/xray/internal/testenv"
)

// patience is how long the browser may take for all of a test.
const patience = 2 * time.Minute

// Page is a page that is open in a browser of its own. It is for one goroutine.
type Page struct {
	t       testing.TB
	in      io.Writer
	out     *bufio.Reader
	session string
	calls   int
}

// Open opens a URL and waits until it is loaded. The test is skipped without
// chromium; the browser ends with the test.
func Open(t testing.TB, url string) *Page {
	t.Helper()
	testenv.Need(t, "chromium")
	profile := t.TempDir()
	// Pages like chrome://tracing are for those who ask for them.
	if err := os.WriteFile(filepath.Join(profile, "Local State"), []byte(`{"internal_only_uis_enabled": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--user-data-dir="+profile, "--remote-debugging-pipe", "about:blank")
	// The browser reads commands from descriptor 3 and answers on 4.
	commands, in := pipe(t)
	out, answers := pipe(t)
	cmd.ExtraFiles = []*os.File{commands, answers}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	commands.Close()
	answers.Close()
	p := &Page{t: t, in: in, out: bufio.NewReader(out)}
	t.Cleanup(func() {
		// Asked to end it takes its children along, which killing would leave.
		_ = p.call("", "Browser.close", nil, nil)
		in.Close()
		_ = cmd.Wait()
		out.Close()
	})
	var target struct{ TargetID string }
	p.must("Target.createTarget", map[string]any{"url": url}, &target)
	var attached struct{ SessionID string }
	p.must("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	for loaded := false; !loaded; time.Sleep(20 * time.Millisecond) {
		p.Eval("location.href !== 'about:blank' && document.readyState === 'complete'", &loaded)
	}
	return p
}

func pipe(t testing.TB) (r, w *os.File) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// Eval runs JavaScript in the page and stores its value, or that of the promise
// it gives, in result, as encoding/json does. That it throws fails the test.
func (p *Page) Eval(script string, result any) {
	p.t.Helper()
	var answer struct {
		Result struct {
			Value       json.RawMessage
			Description string
		}
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	p.must("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &answer)
	if e := answer.ExceptionDetails; e != nil {
		p.t.Fatalf("in the browser: %s %s", e.Text, e.Exception.Description)
	}
	if err := json.Unmarshal(answer.Result.Value, result); err != nil {
		p.t.Fatalf("in the browser: %v in %.300s %s", err, answer.Result.Value, answer.Result.Description)
	}
}

func (p *Page) must(method string, params, result any) {
	p.t.Helper()
	if err := p.call(p.session, method, params, result); err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
}

// call sends a command and waits for its answer.
func (p *Page) call(session, method string, params, result any) error {
	p.calls++
	command, err := json.Marshal(struct {
		ID      int    `json:"id"`
		Session string `json:"sessionId,omitempty"`
		Method  string `json:"method"`
		Params  any    `json:"params,omitempty"`
	}{p.calls, session, method, params})
	if err != nil {
		return err
	}
	if _, err := p.in.Write(append(command, 0)); err != nil {
		return err
	}
	for {
		message, err := p.out.ReadBytes(0)
		if err != nil {
			return fmt.Errorf("the browser has ended: %w", err)
		}
		var answer struct {
			ID     int
			Error  *struct{ Message string }
			Result json.RawMessage
		}
		if err := json.Unmarshal(message[:len(message)-1], &answer); err != nil {
			return err
		}
		switch {
		case answer.ID != p.calls: // an event
		case answer.Error != nil:
			return errors.New(answer.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(answer.Result, result)
		}
	}
}

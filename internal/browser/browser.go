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
const patience = 5 * time.Minute

// Page is a page that is open in a browser of its own. It is for one goroutine.
type Page struct {
	t       testing.TB
	in      io.Writer
	out     *bufio.Reader
	session string
	calls   int
	errors  []string
}

// Options are those of a browser.
type Options struct {
	// Flags are for the command line.
	Flags []string
	// Hosts maps names of hosts, with their ports, to addresses of this machine. No
	// other name is known to the browser.
	Hosts map[string]string
	// Script runs in the page before its own.
	Script string
}

// Open opens a URL and waits until it is loaded. The test is skipped without
// chromium; the browser ends with the test.
func Open(t testing.TB, url string) *Page {
	t.Helper()
	return OpenWith(t, url, Options{})
}

// OpenWith is [Open] with options.
func OpenWith(t testing.TB, url string, opts Options) *Page {
	t.Helper()
	testenv.Need(t, "chromium")
	profile := t.TempDir()
	// Pages like chrome://tracing are for those who ask for them.
	if err := os.WriteFile(filepath.Join(profile, "Local State"), []byte(`{"internal_only_uis_enabled": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	rules := ""
	for host, address := range opts.Hosts {
		rules += "MAP " + host + " " + address + ", "
	}
	args := append([]string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1400,900",
		"--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--host-resolver-rules=" + rules + "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
		"--user-data-dir=" + profile, "--remote-debugging-pipe"}, opts.Flags...)
	cmd := exec.CommandContext(ctx, "chromium", append(args, "about:blank")...)
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
	p.must("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	p.must("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	for _, domain := range []string{"Runtime", "Log", "Page"} {
		p.must(domain+".enable", nil, nil)
	}
	p.must("Page.addScriptToEvaluateOnNewDocument", map[string]any{"source": opts.Script}, nil)
	p.Visit(url)
	return p
}

// Visit opens another URL in place of the page and waits until it is loaded.
func (p *Page) Visit(url string) {
	p.t.Helper()
	p.must("Page.navigate", map[string]any{"url": "about:blank"}, nil) // for what differs in the fragment only
	p.must("Page.navigate", map[string]any{"url": url}, nil)
	for loaded := false; !loaded; time.Sleep(20 * time.Millisecond) {
		p.Eval("location.href !== 'about:blank' && document.readyState === 'complete'", &loaded)
	}
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

// Errors are what the page had to complain of until now: exceptions that nobody caught,
// errors on the console, and requests that failed.
func (p *Page) Errors() []string {
	p.t.Helper()
	var ignored int
	p.Eval("0", &ignored) // what it complained of before comes first
	return p.errors
}

// event keeps what an event complains of. A dialog would hold up the page for good.
func (p *Page) event(method string, params json.RawMessage) error {
	var about struct {
		Type, Message string

		Args  []struct{ Value, Description any }
		Entry struct{ Level, Text, URL string }

		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	switch method {
	case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening":
	default:
		return nil
	}
	if err := json.Unmarshal(params, &about); err != nil {
		return err
	}
	switch {
	case method == "Page.javascriptDialogOpening":
		return fmt.Errorf("the page opens a dialog: %s", about.Message)
	case method == "Runtime.exceptionThrown":
		p.errors = append(p.errors, about.ExceptionDetails.Text+" "+about.ExceptionDetails.Exception.Description)
	case about.Type == "error" || about.Type == "assert":
		p.errors = append(p.errors, fmt.Sprint(about.Args))
	case about.Entry.Level == "error":
		p.errors = append(p.errors, about.Entry.Text+" "+about.Entry.URL)
	}
	return nil
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
			Method string
			Params json.RawMessage
			Error  *struct{ Message string }
			Result json.RawMessage
		}
		if err := json.Unmarshal(message[:len(message)-1], &answer); err != nil {
			return err
		}
		switch {
		case answer.ID != p.calls:
			if err := p.event(answer.Method, answer.Params); err != nil {
				return err
			}
		case answer.Error != nil:
			return errors.New(answer.Error.Message)
		case result == nil:
			return nil
		default:
			return json.Unmarshal(answer.Result, result)
		}
	}
}

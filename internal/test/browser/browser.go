// Package browser lets tests see what a real browser makes of our output: Chromium
// without a window and without a network.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// patience is how long the browser may take for all of a test.
const patience = 5 * time.Minute

// Page is a page that is open in a browser of its own. It is for one goroutine.
type Page struct {
	t      testing.TB
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	errors []string
}

// Options are those of a browser.
type Options struct {
	// AnyCertificate has the browser believe every server.
	AnyCertificate bool
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
	// Helpers of the browser may outlive it for a moment, and still write here, which
	// t.TempDir would take for a failure.
	profile, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	// Pages like chrome://tracing are for those who ask for them.
	if err := os.WriteFile(filepath.Join(profile, "Local State"), []byte(`{"internal_only_uis_enabled": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	rules := ""
	for host, address := range opts.Hosts {
		rules += "MAP " + host + " " + address + ", "
	}
	flags := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.UserDataDir(profile),
		chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1400, 900), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", rules+"MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))
	if opts.AnyCertificate {
		flags = append(flags, chromedp.IgnoreCertErrors)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	p := &Page{t: t}
	ctx, p.cancel = context.WithCancelCause(ctx)
	ctx, _ = chromedp.NewExecAllocator(ctx, flags...)
	p.ctx, _ = chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(p.ctx) })
	if err := chromedp.Listen(p.ctx, p.event); err != nil {
		t.Fatal(err)
	}
	script := page.AddScriptToEvaluateOnNewDocumentParams{Source: opts.Script}
	if _, err := chromedp.Call(p.ctx, page.AddScriptToEvaluateOnNewDocument, script); err != nil {
		t.Fatal(p.why(err))
	}
	p.Visit(url)
	return p
}

// Visit opens another URL in place of the page and waits until it is loaded.
func (p *Page) Visit(url string) {
	p.t.Helper()
	// What differs in the fragment only would not be loaded anew.
	if err := chromedp.Do(p.ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(url)); err != nil {
		p.t.Fatalf("%s: %v", url, p.why(err))
	}
}

// Eval runs JavaScript in the page and stores its value, or that of the promise
// it gives, in result, as encoding/json does. That it throws fails the test.
func (p *Page) Eval(script string, result any) {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, chromedp.Evaluate[json.RawMessage](script, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatalf("in the browser: %v", p.why(err))
	}
	if err := json.Unmarshal(value, result); err != nil {
		p.t.Fatalf("in the browser: %v in %.300s", err, value)
	}
}

// why tells why the browser was ended, if that is why something failed.
func (p *Page) why(err error) error {
	if cause := context.Cause(p.ctx); cause != nil {
		return cause
	}
	return err
}

// Errors are what the page had to complain of until now: exceptions that nobody caught,
// errors on the console, and requests that failed.
func (p *Page) Errors() []string {
	p.t.Helper()
	var ignored int
	p.Eval("0", &ignored) // what it complained of before comes first
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errors
}

// event keeps what an event complains of. A dialog would hold up the page for good.
func (p *Page) event(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		p.cancel(fmt.Errorf("the page opens a dialog: %s", e.Message))
	case *runtime.EventExceptionThrown:
		p.errors = append(p.errors, (&chromedp.ExceptionError{ExceptionDetails: e.ExceptionDetails}).Error())
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeAssert {
			text := ""
			for _, arg := range e.Args {
				text += fmt.Sprintf("%s %s ", arg.Value, arg.Description)
			}
			p.errors = append(p.errors, text)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			p.errors = append(p.errors, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

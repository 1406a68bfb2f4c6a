// Package browser lets tests show our output in a real browser: headless Chromium without a
// network.
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

// patience is the time limit for the browser in a test.
const patience = 5 * time.Minute

// Page is an open page in its own browser. Use it on one goroutine only.
type Page struct {
	t      testing.TB
	ctx    context.Context
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	errors []string
}

// Options are the options of a browser.
type Options struct {
	// AnyCertificate makes the browser accept every certificate.
	AnyCertificate bool
	// Hosts maps names of hosts, with ports, to addresses of this machine. The browser knows no
	// other names.
	Hosts map[string]string
	// Script runs in the page before its own scripts.
	Script string
}

// Open opens a URL and waits until it is loaded. It skips the test without chromium. The browser
// ends with the test.
func Open(t testing.TB, url string) *Page {
	t.Helper()
	return OpenWith(t, url, Options{})
}

// OpenWith is [Open] with options.
func OpenWith(t testing.TB, url string, opts Options) *Page {
	t.Helper()
	testenv.Need(t, "chromium")
	// Helper processes of the browser may outlive it for a moment and write here. t.TempDir
	// would report that as a failure.
	profile, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(profile) })
	// Pages such as chrome://tracing are loaded only on request.
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

// Visit opens another URL in the page and waits until it is loaded.
func (p *Page) Visit(url string) {
	p.t.Helper()
	// A URL that differs only in the fragment would not be reloaded.
	if err := chromedp.Do(p.ctx, chromedp.Navigate("about:blank"), chromedp.Navigate(url)); err != nil {
		p.t.Fatalf("%s: %v", url, p.why(err))
	}
}

// Resize makes the page's area so many pixels wide and high.
func (p *Page) Resize(width, height int64) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, chromedp.EmulateViewport(width, height)); err != nil {
		p.t.Fatal(p.why(err))
	}
}

// Eval runs JavaScript in the page and stores its value, or that of the promise it returns, in
// result, as encoding/json does. An exception fails the test.
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

// why returns why the browser ended, if that is the cause of a failure.
func (p *Page) why(err error) error {
	if cause := context.Cause(p.ctx); cause != nil {
		return cause
	}
	return err
}

// Errors returns what the page has reported so far: uncaught exceptions, errors on the console, and
// failed requests.
func (p *Page) Errors() []string {
	p.t.Helper()
	var ignored int
	p.Eval("0", &ignored) // earlier reports come first
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.errors
}

// event records what an event reports. A dialog would block the page forever.
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

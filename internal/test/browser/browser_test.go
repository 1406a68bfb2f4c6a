package browser_test

import (
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/browser"
)

// Errors of a page are noticed, as are requests that leave the machine.
func TestErrors(t *testing.T) {
	page := browser.OpenWith(t, `data:text/html,<script>
		console.log("fi" + "ne"); console.error("wrong", 7);
		Promise.reject(new Error("nobody caught"));
	</script><img src="http://example.com/picture.png">`, browser.Options{Script: "window.before = 42"})
	var before, promised int
	page.Eval("before", &before)
	page.Eval("new Promise(done => setTimeout(() => done(6 * 7), 1))", &promised)
	if before != 42 || promised != 42 {
		t.Errorf("the first script left %d, a promise returned %d", before, promised)
	}
	got := strings.Join(page.Errors(), "\n")
	for _, want := range []string{`"wrong"`, "7", "nobody caught", "http://example.com/picture.png"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "fine") {
		t.Errorf("unexpected error in\n%s", got)
	}
	page.Visit("data:text/html,<title>another</title>")
	var title string
	if page.Eval("document.title", &title); title != "another" {
		t.Errorf("got next page %q", title)
	}
}

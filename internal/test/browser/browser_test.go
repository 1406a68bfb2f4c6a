package browser_test

import (
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/browser"
)

// What a page complains of is noticed, and so is a request that leaves the machine.
func TestErrors(t *testing.T) {
	page := browser.OpenWith(t, `data:text/html,<script>
		console.log("fi" + "ne"); console.error("wrong", 7);
		Promise.reject(new Error("nobody caught"));
	</script><img src="http://example.com/picture.png">`, browser.Options{Script: "window.before = 42"})
	var before, promised int
	page.Eval("before", &before)
	page.Eval("new Promise(done => setTimeout(() => done(6 * 7), 1))", &promised)
	if before != 42 || promised != 42 {
		t.Errorf("the script that runs first left %d, a promise gave %d", before, promised)
	}
	got := strings.Join(page.Errors(), "\n")
	for _, want := range []string{`"wrong"`, "7", "nobody caught", "http://example.com/picture.png"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
	if strings.Contains(got, "fine") {
		t.Errorf("what is no error is one in\n%s", got)
	}
	page.Visit("data:text/html,<title>another</title>")
	var title string
	if page.Eval("document.title", &title); title != "another" {
		t.Errorf("the page after it is %q", title)
	}
}

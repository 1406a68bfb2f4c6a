package main

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xray-tools/xray/internal/test/browser"
	"github.com/xray-tools/xray/internal/test/testenv"
)

// svgBox is a frame of a flame graph.
type svgBox struct {
	Class string `xml:"class,attr"`
	Depth int    `xml:"data-d,attr"`
	X     string `xml:"x,attr"`
	Width string `xml:"width,attr"`
	Title string `xml:"title"`
}

func (b *svgBox) name() string {
	name, _, _ := strings.Cut(b.Title, "\n")
	return name
}

// span returns where the box starts and ends, in percent.
func (b *svgBox) span(t *testing.T) (start, end float64) {
	start, err := strconv.ParseFloat(strings.TrimSuffix(b.X, "%"), 64)
	if err != nil {
		t.Fatal(err)
	}
	width, err := strconv.ParseFloat(strings.TrimSuffix(b.Width, "%"), 64)
	if err != nil {
		t.Fatal(err)
	}
	return start, start + width
}

// Search and zoom of a flame graph work in a browser.
func TestFlameGraphInBrowser(t *testing.T) {
	t.Parallel()
	testenv.Need(t, "chromium")
	file := filepath.Join(t.TempDir(), "flame.svg")
	produce(t, append([]string{"stack", "--format", "svg", "-o", file}, consumedTraces(t)["kvserver-fdr.xray"]...)...)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var picture struct {
		Boxes []svgBox `xml:"svg"`
	}
	if err := xml.Unmarshal(text, &picture); err != nil {
		t.Fatal(err)
	}
	boxes := picture.Boxes
	if len(boxes) < 10 {
		t.Fatalf("got only %d frames", len(boxes))
	}
	// Choose a frame in the middle of those with both callers and callees.
	to := -1
	for i := range boxes[:len(boxes)-1] {
		if boxes[i].Depth >= 2 && boxes[i+1].Depth > boxes[i].Depth {
			to = i
			break
		}
	}
	if to < 0 {
		t.Fatal("no frame has callers and callees")
	}
	name := boxes[to].name()

	page := browser.Open(t, "file://"+file)
	type state struct {
		Hits, Misses, Shown int
		Widths              []string // names of the frames as wide as the picture
		Matched             string
	}
	look := func(script string) (s state) {
		t.Helper()
		page.Eval(fmt.Sprintf(`(() => {
			const root = document.documentElement;
			const frames = [...root.querySelectorAll("svg.f")];
			const input = root.querySelector("input");
			const type = (text) => { input.value = text; input.dispatchEvent(new Event("input")); };
			const press = (key) => root.dispatchEvent(new KeyboardEvent("keydown", { key }));
			%s;
			const shown = frames.filter((f) => getComputedStyle(f).display !== "none");
			return {
				Hits: frames.filter((f) => f.classList.contains("hit")).length,
				Misses: frames.filter((f) => f.classList.contains("miss")).length,
				Shown: shown.length,
				Widths: shown.filter((f) => f.getAttribute("width") === "100%%").map((f) => f.querySelector("title").textContent.split("\n")[0]),
				Matched: root.querySelector("#matched").textContent,
			};
		})()`, script), &s)
		return s
	}

	start := look("")
	if start.Shown != len(boxes) || start.Hits+start.Misses != 0 || start.Matched != "" {
		t.Errorf("at the start: got %+v, want %d frames", start, len(boxes))
	}

	quoted, _ := json.Marshal(name)
	hits := 0
	for i := range boxes {
		if strings.Contains(strings.ToLower(boxes[i].name()), strings.ToLower(name)) {
			hits++
		}
	}
	want := fmt.Sprintf("%d frames match, ", hits)
	if hits == 1 {
		want = "1 frame matches, "
	}
	found := look(fmt.Sprintf(`type(%s.replace(/[^\w]/g, "\\$&"))`, quoted))
	if found.Hits != hits || found.Misses != len(boxes)-hits || !strings.HasPrefix(found.Matched, want) {
		t.Errorf("search for %q: got %+v, want %d hits among %d frames", name, found, hits, len(boxes))
	}
	if none := look(`type("(no such function")`); none.Hits != 0 || none.Misses != len(boxes) || none.Matched != "0 frames match, 0.00% of all" {
		t.Errorf("empty search: got %+v", none)
	}

	// Zooming keeps the frames inside the chosen one. Its callers take the whole width.
	from, end := boxes[to].span(t)
	shown, around := 0, []string{}
	for i := range boxes {
		a, b := boxes[i].span(t)
		const rounding = 0.001
		switch {
		case boxes[i].Depth < boxes[to].Depth && a <= from+rounding && b >= end-rounding:
			shown++
			around = append(around, boxes[i].name())
		case boxes[i].Depth >= boxes[to].Depth && a >= from-rounding && b <= end+rounding:
			shown++
		}
	}
	zoomed := look(fmt.Sprintf(`type(""); frames[%d].dispatchEvent(new MouseEvent("click"))`, to))
	wide := zoomed.Widths[:min(len(around)+1, len(zoomed.Widths))]
	if diff := cmp.Diff(append(around, name), wide); diff != "" || zoomed.Shown != shown {
		t.Errorf("zoomed to %q: got %d frames, want %d; frames of the full width (-want +got):\n%s", name, zoomed.Shown, shown, diff)
	}
	if again := look(`press("Escape")`); !cmp.Equal(again, start) {
		t.Errorf("zoomed out: got %+v, want %+v", again, start)
	}
}

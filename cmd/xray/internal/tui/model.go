package tui

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/xray-tools/xray/internal/texttab"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/symbolize"
)

// key is a key: a character, or the name of another key as below.
type key string

// Keys that are not characters.
const (
	keyUp, keyDown, keyLeft, keyRight key = "up", "down", "left", "right"
	keyPageUp, keyPageDown            key = "pgup", "pgdn"
	keyHome, keyEnd                   key = "home", "end"
	keyEnter, keyEscape, keyTab       key = "enter", "esc", "tab"
	keyBackspace, keyInterrupt        key = "backspace", "interrupt"
)

// line is a line of the screen.
type line struct {
	Text    string
	Style   style
	Columns int // cells of Text
}

// style is how a line is shown.
type style uint8

// Styles.
const (
	styleNormal   style = iota
	styleHeading        // titles
	styleSelected       // where the cursor is
	styleDim
)

// task is work that a key started and that may take a long time. It returns a text, or an error.
type task struct {
	run  func() ([]string, error)
	page *page
}

// Run does the work.
func (t *task) Run() ([]string, error) { return t.run() }

// Model is the state of the display. It is not safe for concurrent use.
type Model struct {
	data, newest  *Data // newest is shown once the display is unfrozen
	width, height int
	by            int // column that functions are ordered by
	reversed      bool
	search        *regexp.Regexp
	typing        bool
	typed         string
	message       string
	frozen, quit  bool
	pages         []*page // the last one is shown
	chosen        []int   // functions that search selects, in order
	names         map[reader.FuncID]*Function
	children      [][]int // of frames, by position + 1; the first has the roots
	expanded      map[string]bool
}

// New returns a model that shows data, ordered by a column of [Columns].
func New(d *Data, by string) *Model {
	m := &Model{width: 80, height: 24, by: max(0, columnNamed(by)), expanded: make(map[string]bool)}
	m.pages = []*page{{kind: functionsPage}}
	m.show(d)
	return m
}

// resize changes the size of the screen.
func (m *Model) resize(width, height int) { m.width, m.height = max(width, 1), max(height, 1) }

// over reports whether the user wants to leave.
func (m *Model) over() bool { return m.quit }

// say shows a message in the last line until the next key.
func (m *Model) say(format string, args ...any) { m.message = fmt.Sprintf(format, args...) }

// update passes new data to the model.
func (m *Model) update(d *Data) {
	m.newest = d
	if !m.frozen {
		m.show(d)
	}
}

// show replaces the shown data.
func (m *Model) show(d *Data) {
	keys := make([]string, len(m.pages))
	if m.data != nil {
		for i, p := range m.pages {
			if l := m.list(p); p.cursor > 0 && p.cursor < l.n {
				keys[i] = l.at(p.cursor).key
			}
		}
	}
	m.data, m.newest = d, d
	m.names = make(map[reader.FuncID]*Function, len(d.Functions))
	for i := range d.Functions {
		m.names[d.Functions[i].ID] = &d.Functions[i]
	}
	m.children = nil
	m.choose()
	// The cursor stays on its row, unless it is on the first one.
	for i, p := range m.pages {
		p.visible = nil
		if keys[i] == "" {
			continue
		}
		l := m.list(p)
		for at := range l.n {
			if l.at(at).key == keys[i] {
				p.offset = max(0, p.offset+at-p.cursor)
				p.cursor = at
				break
			}
		}
	}
}

// choose chooses and orders functions.
func (m *Model) choose() {
	m.chosen = m.chosen[:0]
	for i := range m.data.Functions {
		if m.search == nil || symbolize.Matches(m.search, m.data.Functions[i].Name) {
			m.chosen = append(m.chosen, i)
		}
	}
	f := m.data.Functions
	slices.SortStableFunc(m.chosen, func(a, b int) int { return compare(&f[a], &f[b], m.by, m.reversed) })
}

func (m *Model) page() *page { return m.pages[len(m.pages)-1] }

// press passes a key to the model. It returns the task that the key starts, or nil. The caller passes
// the task's result to [Model.done].
func (m *Model) press(k key) *task {
	m.message = ""
	switch {
	case k == keyInterrupt:
		m.quit = true
	case m.typing:
		m.typeKey(k)
	case m.move(k):
	default:
		return m.command(k)
	}
	return nil
}

// done shows the result of a task.
func (m *Model) done(t *task, lines []string, err error) {
	switch {
	case t.page == nil && err != nil:
		m.say("%v", err)
	case t.page == nil:
		m.say("%s", strings.Join(lines, " "))
	case err != nil:
		t.page.text = texttab.Wrap(texttab.Printable(err.Error()), "", "", max(m.width, 10))
	default:
		t.page.text = lines
	}
}

// typeKey edits the regular expression of a search.
func (m *Model) typeKey(k key) {
	switch k {
	case keyEnter:
		m.typing = false
	case keyEscape:
		m.typing, m.typed = false, ""
	case keyBackspace:
		if r := []rune(m.typed); len(r) > 0 {
			m.typed = string(r[:len(r)-1])
		}
	default:
		if len([]rune(k)) == 1 && len(m.typed) < 1000 {
			m.typed += string(k)
		}
	}
	search, err := regexp.Compile(m.typed)
	if err != nil {
		m.say("%v", err)
		return
	}
	if m.search = search; m.typed == "" {
		m.search = nil
	}
	m.choose()
	m.page().cursor, m.page().offset = 0, 0
}

// move moves the cursor. It reports whether the key is one that does.
func (m *Model) move(k key) bool {
	p := m.page()
	last := m.list(p).n - 1
	rows := max(1, m.height-m.fixed(p))
	switch k {
	case keyUp, "k":
		p.cursor--
	case keyDown, "j":
		p.cursor++
	case keyPageUp:
		p.cursor -= rows
	case keyPageDown:
		p.cursor += rows
	case keyHome, "g":
		p.cursor = 0
	case keyEnd, "G":
		p.cursor = last
	default:
		return false
	}
	p.cursor = max(0, min(p.cursor, last))
	return true
}

// command handles the other keys.
func (m *Model) command(k key) *task {
	p := m.page()
	switch k {
	case "q":
		m.quit = true
	case "?", "h":
		m.pages = append(m.pages, &page{kind: textPage, title: "Keys", text: help})
	case keyEscape, keyBackspace:
		switch {
		case len(m.pages) > 1:
			m.pages = m.pages[:len(m.pages)-1]
		case m.search != nil:
			m.search, m.typed = nil, ""
			m.choose()
		}
	case keyTab:
		kind := p.kind + 1
		if kind > threadsPage {
			kind = functionsPage
		}
		m.pages = []*page{{kind: kind}}
	case "<", ">":
		m.sortNext(k)
	case "r":
		m.reversed = !m.reversed
		m.choose()
	case "/":
		m.pages = []*page{{kind: functionsPage}}
		m.typing, m.typed = true, ""
	case "f", " ":
		if m.data.Observed > 0 {
			if m.frozen = !m.frozen; !m.frozen && m.newest != m.data {
				m.show(m.newest)
			}
		}
	case "w":
		if save := m.data.Save; save != nil {
			return &task{run: func() ([]string, error) {
				path, err := save()
				return []string{"wrote " + path}, err
			}}
		}
	case keyLeft, keyRight, keyEnter:
		m.open(p, k)
	case "*":
		m.openHottest(p)
	case "c":
		if fn := m.selected(p); fn != 0 {
			m.pages = append(m.pages, &page{kind: functionPage, fn: fn})
		}
	case "l":
		return m.about(p, "Slowest calls", m.data.Slowest)
	case "s":
		return m.about(p, "Source", m.data.Source)
	}
	return nil
}

// sortNext orders by the next column that is shown, to the left or right.
func (m *Model) sortNext(k key) {
	for {
		if k == ">" {
			m.by = (m.by + 1) % len(columns)
		} else {
			m.by = (m.by + len(columns) - 1) % len(columns)
		}
		if !columns[m.by].off || m.data.OffCPU {
			break
		}
	}
	m.reversed = false
	m.choose()
}

// about opens a page with a text about the selected function.
func (m *Model) about(p *page, title string, text func(reader.FuncID, int) ([]string, error)) *task {
	fn := m.selected(p)
	if fn == 0 || text == nil {
		return nil
	}
	next := &page{kind: textPage, fn: fn, title: title + " of " + m.name(fn), text: []string{"working..."}}
	m.pages = append(m.pages, next)
	width := m.width
	return &task{page: next, run: func() ([]string, error) { return text(fn, width) }}
}

// selected returns the function that the cursor is on, or that the page is about, or 0.
func (m *Model) selected(p *page) reader.FuncID {
	if l := m.list(p); p.cursor < l.n {
		if fn := l.at(p.cursor).fn; fn != 0 {
			return fn
		}
	}
	return p.fn
}

func (m *Model) name(fn reader.FuncID) string {
	switch f := m.names[fn]; {
	case f != nil:
		return f.Name
	case fn == reader.Folded:
		return "(folded)"
	}
	return fmt.Sprintf("#%d", fn)
}

// view returns the lines of the screen, at most as many as it has.
func (m *Model) view() []line {
	p := m.page()
	l := m.list(p)
	p.cursor = max(0, min(p.cursor, l.n-1))
	rows := max(1, m.height-m.fixed(p))
	p.offset = max(0, min(p.offset, p.cursor, l.n-rows))
	if p.cursor >= p.offset+rows {
		p.offset = p.cursor - rows + 1
	}
	var lines []line
	add := func(style style, text string) {
		text = cut(text, m.width)
		lines = append(lines, line{Text: text, Style: style, Columns: texttab.Width(text)})
	}
	add(styleNormal, m.title())
	for _, note := range m.notes() {
		add(styleDim, note)
	}
	for _, h := range l.head {
		add(styleHeading, h)
	}
	for at := p.offset; at < min(l.n, p.offset+rows); at++ {
		it := l.at(at)
		if style := it.style; at == p.cursor {
			add(styleSelected, left(cut(it.text, m.width), m.width))
		} else {
			add(style, it.text)
		}
	}
	for len(lines) < m.height-1 {
		add(styleNormal, "")
	}
	if len(lines) >= m.height {
		lines = lines[:m.height-1]
	}
	add(styleHeading, m.status())
	return lines
}

func (m *Model) title() string {
	if m.frozen {
		return "FROZEN " + m.data.Title
	}
	return m.data.Title
}

// notes returns the lines of the notes below the title, at most a quarter of the screen.
func (m *Model) notes() []string {
	var lines []string
	for _, n := range m.data.Notes {
		lines = append(lines, texttab.Wrap(texttab.Printable(n), "", "  ", max(m.width, 10))...)
	}
	return lines[:min(len(lines), max(0, m.height/4))]
}

// fixed is the number of lines that do not scroll.
func (m *Model) fixed(p *page) int { return 2 + len(m.notes()) + len(m.list(p).head) }

// status is the last line.
func (m *Model) status() string {
	switch {
	case m.message != "":
		return m.message
	case m.typing:
		return "search (regexp): " + m.typed + "_"
	}
	keys := "?:keys q:quit Tab:view /:search <>:sort Enter:function l:slowest s:source"
	if m.data.Observed > 0 {
		keys = "?:keys q:quit Tab:view /:search <>:sort Enter:function f:freeze w:write"
	}
	if m.search != nil {
		keys = "/" + m.typed + "  " + keys
	}
	return keys
}

var help = strings.Split(strings.TrimSpace(`
Up, Down, PgUp, PgDn   move; also j and k, g and G
Tab                    next view: functions, call tree, threads
< >                    order functions by another column
r                      reverse the order
/                      search: show functions that match a regular expression
Enter                  like c; in the call tree: open or close a call path
Right, Left            call tree: open, close or go to the caller
*                      call tree: open the path with the most time
c                      callers, callees and histogram of the selected function
l                      slowest calls of the function, and what they did
s                      source code of the function
f, Space               freeze the display, or go on
w                      write a trace of what is shown
Esc                    back; end a search
q, Ctrl-C              quit
`), "\n")

package tui

import (
	"context"
	"fmt"

	"github.com/gdamore/tcell/v2"
)

// Update is new data, or the reason why there will be none.
type Update struct {
	Data *Data
	Err  error
}

// Open takes over the terminal.
func Open() (tcell.Screen, error) {
	screen, err := tcell.NewScreen()
	if err == nil {
		err = screen.Init()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use the terminal: %w", err)
	}
	return screen, nil
}

// Run shows a model on a screen until the user leaves it or ctx ends. Then it releases the terminal. It
// returns a function that waits for a task that is still running. After an update with an error, the
// display stays and shows the error.
func Run(ctx context.Context, screen tcell.Screen, m *Model, updates <-chan Update) (wait func()) {
	defer screen.Fini()
	events, stop := make(chan tcell.Event), make(chan struct{})
	defer close(stop)
	go screen.ChannelEvents(events, stop)
	type result struct {
		task  *task
		lines []string
		err   error
	}
	results := make(chan result)
	tasks := make(chan *task, 64)
	defer close(tasks)
	done := make(chan struct{})
	wait = func() { <-done }
	go func() {
		defer close(done)
		for t := range tasks {
			lines, err := t.Run()
			select {
			case results <- result{t, lines, err}:
			case <-stop:
				return
			}
		}
	}()
	m.resize(screen.Size())
	for !m.over() {
		draw(screen, m)
		select {
		case <-ctx.Done():
			return wait
		case r := <-results:
			m.done(r.task, r.lines, r.err)
		case u, ok := <-updates:
			switch {
			case !ok:
				updates = nil
			case u.Err != nil:
				m.say("%v", u.Err)
			default:
				m.update(u.Data)
			}
		case e := <-events:
			switch e := e.(type) {
			case nil, *tcell.EventError:
				return wait // the terminal is gone
			case *tcell.EventResize:
				m.resize(e.Size())
				screen.Sync()
			case *tcell.EventKey:
				if task := m.press(keyOf(e)); task != nil {
					select {
					case tasks <- task:
					default:
						m.say("busy")
					}
				}
			}
		}
	}
	return wait
}

// keys are the keys that are not characters.
var keys = map[tcell.Key]key{
	tcell.KeyUp: keyUp, tcell.KeyDown: keyDown, tcell.KeyLeft: keyLeft, tcell.KeyRight: keyRight,
	tcell.KeyPgUp: keyPageUp, tcell.KeyPgDn: keyPageDown, tcell.KeyHome: keyHome, tcell.KeyEnd: keyEnd,
	tcell.KeyEnter: keyEnter, tcell.KeyEscape: keyEscape, tcell.KeyTab: keyTab,
	tcell.KeyBackspace: keyBackspace, tcell.KeyBackspace2: keyBackspace, tcell.KeyCtrlC: keyInterrupt,
}

func keyOf(e *tcell.EventKey) key {
	if e.Key() == tcell.KeyRune {
		return key(e.Rune())
	}
	return keys[e.Key()]
}

var styles = map[style]tcell.Style{
	styleNormal: tcell.StyleDefault, styleHeading: tcell.StyleDefault.Bold(true),
	styleSelected: tcell.StyleDefault.Reverse(true), styleDim: tcell.StyleDefault.Dim(true),
}

func draw(screen tcell.Screen, m *Model) {
	screen.Clear()
	for y, line := range m.view() {
		screen.PutStrStyled(0, y, line.Text, styles[line.Style])
	}
	screen.Show()
}

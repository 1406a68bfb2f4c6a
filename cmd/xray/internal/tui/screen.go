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
		task  *Task
		lines []string
		err   error
	}
	results := make(chan result)
	tasks := make(chan *Task, 64)
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
	m.Resize(screen.Size())
	for !m.Quit() {
		draw(screen, m)
		select {
		case <-ctx.Done():
			return wait
		case r := <-results:
			m.Done(r.task, r.lines, r.err)
		case u, ok := <-updates:
			switch {
			case !ok:
				updates = nil
			case u.Err != nil:
				m.Say("%v", u.Err)
			default:
				m.Update(u.Data)
			}
		case e := <-events:
			switch e := e.(type) {
			case nil, *tcell.EventError:
				return wait // the terminal is gone
			case *tcell.EventResize:
				m.Resize(e.Size())
				screen.Sync()
			case *tcell.EventKey:
				if task := m.Press(keyOf(e)); task != nil {
					select {
					case tasks <- task:
					default:
						m.Say("busy")
					}
				}
			}
		}
	}
	return wait
}

// keys are the keys that are not characters.
var keys = map[tcell.Key]Key{
	tcell.KeyUp: Up, tcell.KeyDown: Down, tcell.KeyLeft: Left, tcell.KeyRight: Right,
	tcell.KeyPgUp: PageUp, tcell.KeyPgDn: PageDown, tcell.KeyHome: Home, tcell.KeyEnd: End,
	tcell.KeyEnter: Enter, tcell.KeyEscape: Escape, tcell.KeyTab: Tab,
	tcell.KeyBackspace: Backspace, tcell.KeyBackspace2: Backspace, tcell.KeyCtrlC: Interrupted,
}

func keyOf(e *tcell.EventKey) Key {
	if e.Key() == tcell.KeyRune {
		return Key(e.Rune())
	}
	return keys[e.Key()]
}

var styles = map[Style]tcell.Style{
	Normal: tcell.StyleDefault, Heading: tcell.StyleDefault.Bold(true),
	Selected: tcell.StyleDefault.Reverse(true), Dim: tcell.StyleDefault.Dim(true),
}

func draw(screen tcell.Screen, m *Model) {
	screen.Clear()
	for y, line := range m.View() {
		screen.PutStrStyled(0, y, line.Text, styles[line.Style])
	}
	screen.Show()
}

//go:build linux && amd64

package real

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// The trace of a program that is killed or interrupted has all calls made before: at least those
// with answers, and at most those asked for.
func TestEndedUnderLoad(t *testing.T) {
	driven := func(l load) bool { return l.drive != nil }
	eachLoad(t, driven, func(t *testing.T, p program, l load) {
		src := p.build(t, instrumented)
		longer, _ := longer()
		for i, m := range modes {
			for j, e := range endings[1:] {
				t.Run(m.name+"/"+e.name, func(t *testing.T) {
					s := startSession(t, l, run{src: src, record: m.flags, times: longer})
					over := make(chan struct{})
					go func() {
						defer close(over)
						l.drive(s) // fails when the program ends
					}()
					enough := int64(1000 + 77*i + 333*j)
					for end := time.Now().Add(patience); s.tally.total() < enough; time.Sleep(time.Millisecond) {
						if time.Now().After(end) {
							t.Fatalf("got only %d answers\n%s", s.tally.total(), s.said())
						}
					}
					if err := e.end(s); err != nil {
						t.Fatal(err)
					}
					<-over
					if err := s.wait(); err != nil {
						t.Fatal(err)
					}
					checkTraces(t, l, s)
					have := calls(t, s)
					said := ""
					for _, f := range slices.Sorted(maps.Keys(s.tally.answered)) {
						n, least, most := have[f], s.tally.answered[f], s.tally.asked[f]
						if n < least || most > 0 && n > most {
							t.Errorf("%s: %d calls recorded, %d answered, %d asked for", f, n, least, most)
						}
						said += fmt.Sprintf(" %s %d of %d to %d", f, n, least, most)
					}
					t.Log(said)
				})
			}
		}
	})
}

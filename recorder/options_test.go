package recorder

import (
	"testing"
	"time"
)

func TestEnvironment(t *testing.T) {
	o := Options{
		Settings: Settings{Mode: Prune, Threshold: 5 * time.Microsecond, Depth: 3, Limit: 1 << 20},
		Output:   "/tmp/a,b/100%%/xray-%e.%p.xray", Ring: 1 << 20, Select: true,
		NoFollow: true, Observer: "o", Session: 12, NoOffCPU: true, Quiet: true,
	}
	want := "XRAY_RECORDER=mode=depth,threshold=5000,depth=3,limit=1048576,start=1,control=1," +
		"output=/tmp/a%2Cb/100%25%25/xray-%25e.%25p.xray,stream=0,ring=1048576,select=only,follow=0,observer=o,session=12,offcpu=0,quiet=1"
	if got := o.Environment(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	plain := Options{Output: "x", Select: true, SelectAll: true}
	want = "XRAY_RECORDER=mode=record,start=1,control=1,output=x,stream=1,select=except,follow=1"
	if got := plain.Environment(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	idle := Options{Idle: true, Ring: 1 << 20, Settings: Settings{Budget: 0.03}}
	want = "XRAY_RECORDER=mode=record,start=0,control=1,stream=0,ring=1048576,follow=1,limited=30000"
	if got := idle.Environment(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestCommands(t *testing.T) {
	r := Settings{Mode: Prune, Threshold: time.Millisecond, Depth: 2}
	if got, want := r.StartCommand(true), "start mode=depth threshold=1000000 depth=2 stream=1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := r.ModeCommand(), "mode depth threshold=1000000 depth=2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTemplates(t *testing.T) {
	for _, ok := range []string{"", "a", "%p", "%e.%p%%"} {
		if err := CheckTemplate(ok); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"%", "a%", "%d", "%%%"} {
		if CheckTemplate(bad) == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
	if got := ExpandTemplate("%e-%p-%%p", 12, "pro"); got != "pro-12-%p" {
		t.Errorf("got %q", got)
	}
	path := "/tmp/50% off/%p"
	if got := ExpandTemplate(EscapeTemplate(path), 12, "pro"); got != path {
		t.Errorf("got %q", got)
	}
}

package recorder_test

import (
	"fmt"
	"time"

	"github.com/xray-tools/xray/recorder"
)

// The environment of a program that drops calls shorter than 5 us, unless they contain a longer one. The
// runtime that the program loads reads it.
func ExampleOptions_Environment() {
	opts := recorder.Options{
		Settings: recorder.Settings{Mode: recorder.Prune, Threshold: 5 * time.Microsecond},
		Output:   "%e.%p.xray",
	}
	fmt.Println(opts.Environment())
	// Output:
	// XRAY_RECORDER=mode=prune,threshold=5000,start=1,control=1,output=%25e.%25p.xray,stream=1,follow=1
}

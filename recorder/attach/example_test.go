package attach_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/xray-tools/xray/recorder/attach"
)

// Call a function of a shared object in a running process, which loads the object first.
func ExampleLoad() {
	result, err := attach.Load(context.Background(), 1234, attach.Options{
		Object: "libplugin.so", Late: "plugin_loaded_late", Function: "plugin_start", Argument: "verbose",
	})
	if failed := (*attach.FailedError)(nil); errors.As(err, &failed) {
		log.Fatal("the process was changed: ", failed)
	}
	if err != nil {
		log.Fatal(err) // the process is as it was
	}
	fmt.Println(result)
}

package client_test

import (
	"context"
	"fmt"
	"log"

	"github.com/xray-tools/xray/recorder/client"
)

// Ask the recorders of all processes what they record.
func Example() {
	ctx := context.Background()
	list, err := client.List(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range list {
		p, err := client.Dial(fmt.Sprint(l.PID))
		if err != nil {
			log.Fatal(err)
		}
		var status client.Status
		if _, err := p.Do(ctx, &status, "status"); err != nil {
			log.Print(err) // it may have ended
			continue
		}
		fmt.Println(status.PID, status.Exe, status.Mode, status.Recording)
	}
}

package main

import (
	"io"
	"os"
	"strconv"
	"syscall"
	"time"
)

// interrupted writes half of the file named by its first argument. Then it sends itself the signal
// whose number is its second argument.
func interrupted() {
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	err = new(app).WriteText(os.Args[1], func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		time.AfterFunc(time.Minute, func() { os.Exit(3) })
		if err := self.Signal(syscall.Signal(n)); err != nil {
			return err
		}
		select {}
	})
	panic(err)
}

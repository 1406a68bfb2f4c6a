package main

import (
	"io"
	"os"
	"time"
)

// interrupted writes half of a file, and is interrupted as soon as that is there.
func interrupted() {
	err := replaceFile(os.Args[1], 0o666, func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			return err
		}
		self, err := os.FindProcess(os.Getpid())
		if err != nil {
			return err
		}
		time.AfterFunc(time.Minute, func() { os.Exit(3) })
		if err := self.Signal(os.Interrupt); err != nil {
			return err
		}
		select {}
	})
	panic(err)
}

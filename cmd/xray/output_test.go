package main

import (
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/xray-tools/xray/internal/fileio"
)

// interrupted writes half of the file named by its first argument, or of one in a directory if
// the name ends in a slash. Then it sends itself the signal whose number is its second argument.
func interrupted() {
	n, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	write := new(app).WriteText
	if strings.HasSuffix(os.Args[1], "/") {
		write = writeInTree
	}
	err = write(os.Args[1], func(w io.Writer) error {
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

// writeInTree writes a file below a directory.
func writeInTree(dir string, f func(io.Writer) error) error {
	return fileio.WriteTree(dir, func(t *fileio.Tree) error {
		file, err := t.Create("folder/file")
		if err != nil {
			return err
		}
		return f(file)
	})
}

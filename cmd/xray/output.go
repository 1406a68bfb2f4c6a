package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/term"
)

// writeOutput has f write to the file path, or to standard output when that is
// "-" or "". A regular file appears only when f succeeds, so that a run that
// fails leaves the file that was there before, and never half a file.
func (a *app) writeOutput(path string, f func(io.Writer) error) error {
	if path == "" || path == "-" {
		return flushed(a.stdout, f)
	}
	path = linkTarget(path)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return replaceFile(path, 0o666, f)
	case err != nil:
		return err
	case info.Mode().IsRegular():
		return replaceFile(path, info.Mode().Perm(), f)
	}
	// Devices and pipes cannot be replaced.
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(flushed(file, f), file.Close())
}

// linkTarget follows symbolic links, so that not they are replaced but the file
// they point to, which need not be there yet.
func linkTarget(path string) string {
	// As many links in a row as the system follows.
	for range 40 {
		if target, err := filepath.EvalSymlinks(path); err == nil {
			return target
		}
		link, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if !filepath.IsAbs(link) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(path))
			if err != nil {
				return path
			}
			link = filepath.Join(dir, link)
		}
		path = link
	}
	return path
}

func flushed(w io.Writer, f func(io.Writer) error) error {
	b := newBehind(w)
	// What was written before f failed is of use to the reader of a pipe.
	err := f(b)
	if closeErr := b.Close(); err == nil {
		err = closeErr
	}
	return err
}

// replaceFile has f write a file beside path, and renames it when all went well.
func replaceFile(path string, mode fs.FileMode, f func(io.Writer) error) error {
	create := func(temp string) (*os.File, error) {
		file, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if err != nil {
			// The name in the error should be that which the user knows.
			if pathErr := new(fs.PathError); errors.As(err, &pathErr) {
				err = pathErr.Err
			}
			return nil, fmt.Errorf("cannot write %s: %w", path, err)
		}
		return file, nil
	}
	return replace(path, create, func(file *os.File) error { return flushed(file, f) })
}

// replace creates a file beside path, has it filled, and renames it when all went well.
func replace(path string, create func(temp string) (*os.File, error), fill func(*os.File) error) error {
	temp := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d", filepath.Base(path), os.Getpid()))
	file, stop, err := createTemporary(temp, create)
	if err != nil {
		return err
	}
	defer stop()
	err = errors.Join(fill(file), file.Close())
	if err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		os.Remove(temp)
	}
	return err
}

// createTemporary creates a file, and sees to it that a program that is interrupted
// leaves no such file behind, until stop is called.
func createTemporary(path string, create func(path string) (*os.File, error)) (file *os.File, stop func(), err error) {
	signals := make(chan os.Signal, 1)
	if heed := heeded(os.Interrupt, syscall.SIGTERM); len(heed) > 0 {
		signal.Notify(signals, heed...)
	}
	if file, err = create(path); err != nil {
		signal.Stop(signals)
		return nil, nil, err
	}
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			os.Remove(path)
			endBySignal(signals, s)
		case <-done:
		}
	}()
	return file, func() {
		signal.Stop(signals)
		close(done)
	}, nil
}

// endBySignal ends the program as the signal would have that it was sent, so that a shell
// knows why, and ends its loops, too.
func endBySignal(signals chan<- os.Signal, s os.Signal) {
	signal.Stop(signals)
	if self, err := os.FindProcess(os.Getpid()); err == nil && self.Signal(s) == nil {
		time.Sleep(time.Second) // it comes to another thread, at any moment
	}
	os.Exit(exitFailed)
}

// refuseTerminal is for formats that are no text.
func (a *app) refuseTerminal(path, format string) error {
	if (path == "" || path == "-") && isTerminal(a.stdout) {
		return usagef("%s is no text: write it to a file with -o FILE, or to a pipe", format)
	}
	return nil
}

func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

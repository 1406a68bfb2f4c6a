package machines_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/xray-tools/xray/account"
	"github.com/xray-tools/xray/explain/machines"
	"github.com/xray-tools/xray/reader"
	"github.com/xray-tools/xray/reader/calls"
	"github.com/xray-tools/xray/symbolize"
)

// The traces of two hosts are one for an analysis. Folders named KEY=VALUE say where a trace is from.
func Example() {
	dir, err := os.MkdirTemp("", "machines")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	data, err := os.ReadFile("../../testdata/journal-recorded.xray")
	if err != nil {
		log.Fatal(err)
	}
	var files []string
	for _, host := range []string{"host=h5", "host=h6"} {
		file := filepath.Join(dir, host, "t.xray")
		if err := os.Mkdir(filepath.Dir(file), 0o777); err != nil {
			log.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o666); err != nil {
			log.Fatal(err)
		}
		files = append(files, file)
	}
	open := func(paths ...string) (*reader.Trace, error) { return reader.Open(reader.Options{}, paths...) }
	trace, err := open(files...)
	if err != nil {
		log.Fatal(err)
	}
	defer trace.Close()
	joined, err := machines.Join(trace, machines.Sources{Open: func(path string) (*reader.Trace, error) { return open(path) }})
	if err != nil {
		log.Fatal(err)
	}
	defer joined.Close()
	for _, o := range joined.Origins {
		fmt.Println("from", o.Host)
	}
	a, _, err := calls.Run(calls.Source(joined), calls.Options{}, func() *account.Analysis { return account.New(account.Options{}) })
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range a.Report(joined.Clock.Frequency).Rows {
		if name := symbolize.Label(joined.Names(), row.Func); name == "write" {
			fmt.Println(row.Count, "calls of", name)
		}
	}
	// Output:
	// from h5
	// from h6
	// 128 calls of write
}

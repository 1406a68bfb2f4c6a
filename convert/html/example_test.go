package html_test

import (
	"bytes"
	"fmt"
	"log"

	"github.com/xray-tools/xray/convert/html"
	"github.com/xray-tools/xray/internal/test/recorded"
	"github.com/xray-tools/xray/reader/calls"
)

// A page collects calls, and is written at the end.
func Example() {
	trace, names, clock, close := recorded.Open()
	defer close()
	span, err := trace.Extent()
	if err != nil {
		log.Fatal(err)
	}
	opts := &html.Options{
		Title: "journal", Frequency: clock.Frequency, Base: span.First,
		ThreadName: trace.ThreadName, ProcessName: trace.ProcessName,
	}
	page, stats, err := calls.Run(calls.Source(trace), calls.Options{Opens: true}, func() *html.Page { return html.New(opts) })
	if err != nil {
		log.Fatal(err)
	}
	var file bytes.Buffer
	if err := page.Write(&file, names); err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Calls, "calls in a page that begins with", string(file.Bytes()[:15]))
	// Output:
	// 602 calls in a page that begins with <!doctype html>
}

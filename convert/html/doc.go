// Package html writes a trace as one HTML file, which shows the calls as a table, a timeline, a
// flame graph and a call tree. It needs no network.
//
// [Page] is a sink of reader/calls that keeps the calls as columns of numbers.
// [Page.Write] compresses the columns into the page, whose script unpacks them into typed
// arrays. The page consists of page.html, style.css and page.js in assets. Everything from the trace is
// escaped, and the page's content security policy allows no other scripts.
//
// page.js is the bundle of the TypeScript modules in page:
//
//	go test ./convert/html -run TestBundle -update
//
// model has the data and what is computed from it, without the document. A worker runs the queries of
// model/query.ts, which visit many calls. page.ts has the state, and timeline and views draw it. To add a view,
// write a file in views with a View (view.ts), and add it to views/index.ts.
package html

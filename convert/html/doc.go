// Package html writes a trace as one HTML file, which shows the calls as a table, a timeline, a
// flame graph and a call tree. It needs no network.
//
// [Page] is a sink of reader/calls that keeps the calls as columns of numbers.
// [Page.Write] compresses the columns into the page, whose script unpacks them into typed
// arrays. The page consists of page.html, style.css and the scripts in assets. Everything from
// the trace is escaped, and the page's content security policy allows no other scripts.
package html

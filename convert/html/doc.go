// Package html writes a trace as one HTML file, which shows its calls as a table, a
// timeline, a flame graph and a call tree, without a network.
//
// [Recording] is a sink of reader/calls that keeps the calls as columns of numbers.
// [Recording.Write] compresses the columns into the page, where its script unpacks them
// into typed arrays. The page is made of page.html, style.css and the scripts in assets.
// Everything from the trace is escaped, and the page's policy allows no other scripts.
package html

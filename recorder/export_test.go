package recorder

// EscapeOption is for the tests in package recorder_test.
var EscapeOption = escapeOption

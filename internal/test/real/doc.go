// Package real has the tests that record real programs: SQLite, Redis, PostgreSQL and others, built
// unmodified from Debian's sources with clang and -fxray-instrument. A recorded program must give
// the same answers as an unrecorded one, and its trace must have every call that the program made.
//
// Quick tests are part of make test. XRAY_REAL=1, which make real sets, runs the others.
package real

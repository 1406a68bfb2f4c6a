// Package real has the tests that record real programs: SQLite, Redis, PostgreSQL
// and others of Debian's sources, built with clang and -fxray-instrument and
// otherwise as they are. A recorded program must answer as an unrecorded one does,
// and its trace must have every call that the program made.
//
// What is quick is part of make test. XRAY_REAL=1, which make real sets, runs the rest.
package real

// Package e2e runs the built silk as a user would, and holds what it does against rows of expectations.
//
// A row is a program, the command line that runs it, and what must come of it: outcome, output, artifacts, limits that
// were hit. Rows live in testdata/rows, one YAML file per subject; the programs of hostile rows use testdata/lib. A row
// that shows an unwanted effect prints a line that begins with "ESCAPED", which no row may ever show. To add a
// behaviour, add a row; what takes more than one run of silk at a time is a test of its own.
//
// The tests need the built silk (SILK_BIN, else bin/silk) and the lab images (SILK_TEST_HOME, else SILK_HOME, else the
// default store), and skip without them; see internal/testenv. Everything that silk writes goes to temporary
// directories.
package e2e

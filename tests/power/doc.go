// Package power has the test of what "accepted" promises: a server's writes and syncs are recorded in their order, and another
// server is started on what each prefix of them leaves, after a kill and after a loss of power. It stands apart from package queue
// because there it would run under the race detector, for minutes.
//
// Power is not really cut: see package internal/disktrace for what the model has.
package power

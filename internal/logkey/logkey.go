// Package logkey has the keys of log attributes, so that operators find the same thing under the same word everywhere.
package logkey

// Keys.
const (
	Run   = "run"   // run id
	Error = "error" // an error value
	Panic = "panic" // the value of a panic
	Stack = "stack" // of a panic
)

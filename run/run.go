// Package run is where to start reading: it takes one request through its whole life.
//
//	request -> policy.Decide -> plan -> image, workspace -> driver -> frames -> outcome -> record, audit
//
// [Engine.Run] is the only way in, for the command line as for every other door. Whatever happens - refusal, failure,
// cancel, crash of the sandbox - it returns an [Outcome], leaves one record and one chain of audit events, and nothing
// else.
package run

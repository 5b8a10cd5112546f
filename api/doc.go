// Package api has the types that cross the wire between a silk server and its clients, as openapi.yaml describes them.
//
// It is a promise: fields are added, never renamed, removed or given another meaning within /v1. It holds no behaviour
// but that of encoding. All times are Unix milliseconds (`_ms`, `at_ms` of a stream excepted), all sizes bytes.
package api

//go:generate go test ../httpapi -run ^TestSpec$ -update

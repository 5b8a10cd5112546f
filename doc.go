// Package silk is the root of a sandbox for code you do not trust; it holds no code of its own.
//
// One run goes one way: cmd/silk makes a policy.Request, policy.Decide turns it into a complete plan or refuses it,
// run.Engine carries the plan out through image, workspace and driver, and what happened ends in record and audit.
// Start reading at package run; docs/architecture.md draws the way.
//
// The tests in this folder are the rules that hold for the whole module: who may import whom (imports_test.go) and
// which functions nobody may call, with the reason for each (bans_test.go, .golangci.yml).
package silk

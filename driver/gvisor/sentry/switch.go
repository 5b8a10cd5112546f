//go:build !silkcontrol

package sentry

// on says whether a rule is in force. All are. In the builds that tests/escape makes for itself one can be switched
// off, to see whether an attack needs it: switch_control.go.
func (*guard) on(string) bool { return true }

//go:build !silkcontrol

package egress

// InForce is what becomes of a refusal: all are in force. In the builds that tests/escape makes for itself one can be switched off, to see
// whether an attack needs it: switch_control.go.
func (*Table) InForce(refused error) error { return refused }

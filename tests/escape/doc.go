// Package escape holds silk against its attack suite, package selftest, and the suite against silk.
//
// TestSelftest runs all rows by `silk selftest`, as root and as an ordinary user. TestPlanted runs those about files again
// on an image in which the files that no image may have are planted, so that a policy which lets a name through has
// something to lose. TestControls runs each row that has a rule with that rule switched off, and with what stops it next
// switched off too, until the effect happens or the row has named the layer of another kind that stops it: a row whose
// control does not differ would prove nothing. The switch exists only in a silk and a sandbox kernel that the tests build
// for themselves, below bin/escape; TestNoSwitchInTheProduct shows that the ordinary ones have none.
//
// A way out of a sandbox that was found gets its row in selftest before it is closed.
package escape

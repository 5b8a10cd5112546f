// Command silk-attack is the attack program of `silk selftest`: it tries, from inside a sandbox, what a sandbox must not
// let happen, and says truthfully what came of it. It is not for use by itself: outside a sandbox some of it does harm.
//
// Its first argument names an attack, the others are that attack's own (see package selftest, which has the rows). It
// prints, a line each,
//
//	reached           just before the call that it is about: it got so far
//	errno NAME        what the kernel answered; "errno 0" means that the call returned without an error
//	EFFECT: TEXT      the effect happened, with evidence: bytes that were read, the id that changed, the answer received
//	setup TEXT        what kept it from reaching the call; it exits with 3
//
// and exits with 0. Attacks that could hurt a machine look first whether they are in a sandbox.
package main

// Package selftest is the attack suite that silk proves itself with, on the user's machine and against any driver:
// `silk selftest`.
//
// A [Row] is one attack: what the attack program does, and what must come of it by which rule of driver/rules. [Suite]
// runs rows, each in a sandbox of its own, through the same engine as every run, and judges them by their effect: a file
// whose bytes were read, an id that changed, an answer that came. A row holds only if the attack program itself said that
// it had reached the forbidden call. tests/escape runs the same rows with their rules switched off, which no product
// build can do, and so shows that each row would notice.
//
// A [SkillTest] is a test of what a skill must not be able to do, `silk skill selftest`: a program that runs with and without a restriction.
//
// Rows are data, a file for each class or two. To add an attack, add a row; see docs/selftest.md. The package starts
// nothing itself and knows no driver.
package selftest

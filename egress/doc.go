// Package egress decides what a sandbox reaches, before anything is dialled.
//
// A [Table] is one sandbox's: its rules, the addresses that the owner named, and the synthetic addresses that stand for names. It
// answers the sandbox's DNS queries ([Table.Answer]), says for a destination what may be dialled ([Table.Destination]), and
// checks the address that a name has led to ([Table.Check]). [Sniff] reads what a client says first, which for a rule without "tcp:"
// has to name the host of the rule.
//
// The package dials nothing and knows no packets: package egress/gateway does, with a network stack.
package egress

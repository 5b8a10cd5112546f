package selftest

import (
	"slices"
	"sync"
)

// All is every row, class by class. Rows are shared: the caller must not change them.
var All = sync.OnceValue(func() []Row {
	return slices.Concat(
		spellings(), links(), hardLinks(), openings(), kernelFiles(), hostFiles(), processFiles(), devices(), unlisted(), ordinaryFiles(), lookalikes(), readOnly(), mounted(),
		sockets(), destinations(), loopback(),
		rawAddresses(), otherNames(), noNames(), fronting(), rebinding(), tunnels(), overIPv6(), datagrams(), quic(), metadata(), privateRanges(), spelledAddresses(), redirects(),
		proxies(), slowClients(), scans(),
		mounts(), newNamespaces(), identities(), kernelPrivileges(), otherProcesses(), probes(), otherHands(), hostSettings(), priorities(), agents(),
		oneProcess(), execution(), races(),
		memory(), kernelMemory(), counts(), endless(), output(), afterwards(), visibility(),
	)
})

// class completes rows that share a class and, unless they say otherwise, a rule and what is behind it.
func class(name, rule string, behind []Layer, rows ...Row) []Row {
	for i := range rows {
		r := &rows[i]
		r.Class = name
		if r.Rule == "" && r.Want == (Want{}) {
			r.Rule = rule
		}
		if r.Rule != "" && r.Behind == nil {
			r.Behind = behind
		}
	}
	return rows
}

// do is the command line of an attack.
func do(words ...string) []string { return words }

// happens is what comes of an attack that nothing else stops.
var happens = []Layer{{Effect: true}}

// thenRule says that another rule stops an attack, and what comes of it when that is off too.
func thenRule(rule string, behind ...Layer) []Layer {
	return append([]Layer{{Rule: rule}}, behind...)
}

// kernel says what the kernel itself answers, and why.
func kernel(errno, why string) Layer { return Layer{Errno: errno, Why: why} }

func behind(layers ...Layer) []Layer { return layers }

// unstarted is what comes of a run whose own program may not be opened.
var unstarted = Want{Outcome: "failed", Exit: 126, Unstarted: true}

// Why the kernel itself refuses.
const (
	programGone  = "the attack program itself lies there, and is not started"
	absentCall   = "the sandbox's kernel has no such call"
	noCapability = "no capability"
	readOnlyRoot = "the root file system is read-only"
	notThere     = "the sandbox's kernel has none"
	oldPolicies  = "the sandbox's kernel has the usual policy only"
	inward       = "a process may look into its descendants only"
	manyThreads  = "a process of several threads may not"
	noFamily     = "the sandbox's kernel has no such family"
	noRoute      = "the sandbox has no route but its loopback"
	noExec       = "the file system is mounted noexec"
	notOwner     = "it belongs to another user, init's"
)

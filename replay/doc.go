// Package replay runs what has been run once again, and says what came out otherwise.
//
// [Keep] decides, when a run ends, what is kept of its request ("silk.run-request/v1") and what stands in the way of running it
// again: a [Request]. Beside it lie the workspace as a tar stream and the input, byte for byte. The hash of the request stands in the
// record, which is signed, and the request has the hashes of both. [Request.Again] makes a policy.Request of it, which is decided about
// like any other. [Compare] holds the records of both runs against each other.
//
// Values are kept of nothing that may be a secret: those of variables that the invoker gave are kept as hashes, and are to be given
// again. What cannot be replayed is refused by name ([*Refusal]).
//
// A [Bundle] is a run in one file, for others; [Collect] puts it together. The package decides and compares, and starts nothing.
package replay

// Package broker carries what a run prints, and what happens to it, from the one who executes it to everybody who
// watches.
//
// The writer opens a [Stream] and gives it output and frames; readers attach a [Viewer], or a [Many] for several runs,
// and get frames of package api as JSON. It has no HTTP in it, knows no tokens and holds no results: the record of a
// run is the place for what is to last.
//
// What it promises:
//
//   - Frames of one viewer come in the order in which they were published. Within a channel each piece begins where the
//     one before has ended; where bytes cannot be had any more a gap frame says which. No byte comes twice.
//   - A viewer may come late, leave, and come again with a [Cursor]: it gets what it has not seen from memory, else
//     from the log on disk, else a gap.
//   - A viewer never slows the program or another viewer, whatever it does or does not do, but for one: the follower, if
//     somebody asks to be it ([Broker.Follow]), for which the program waits as for the reader of a pipe, in bounded time.
//   - The exit frame is the last one. A stream that ends without it ended for another reason, and how the run ended is
//     unknown.
//
// What it costs is bounded: for each stream 256 KiB of encoded frames (each encoded once, for all viewers), twice 4 KiB
// of tail for each channel, for a follower that lags 2 MiB of frames and what the pipes hold at the end, and the output limit of the run on disk; for each viewer one frame and some references.
//
// The log is written by write(2) in order, before a viewer sees a frame, and is never synced: after the death of the
// process (kill -9) it has everything that any viewer has seen, up to the limit, and [RecoverOutput] gives it back;
// after a loss of power it may have less. A full disk ends the log early and nothing else.
package broker

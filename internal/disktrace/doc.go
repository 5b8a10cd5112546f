// Package disktrace is for tests of what survives: it records what a program does to the files of a directory, and makes of
// that what a crash at any moment of it would leave.
//
// [Record] runs a program under strace(1) and returns its [Trace]: every write, change of a name and sync below the
// directory, in order and with the data, and what the program said on its standard output meanwhile. From a Trace come
// a [State] for each moment:
//
//   - [Trace.Killed]: the process ends, the system goes on. All that was written is there.
//   - [Trace.PowerLoss]: the worst that POSIX allows. Of a file there is what was written before the last fsync of it began,
//     and it has a name only if its directory was synced since (fsync(2)).
//   - [Trace.Torn]: something between the two, as disks leave it: of what was not synced, some writes are there, whole or
//     in part, in no order; names are there up to some change (a journal has an order), and a synced file has its name (ext4).
//
// What this is not: a real power loss. Disks that lie about their cache, and file systems with faults, are not in the model.
// Nor are writes through shared memory: a program that maps a file of the directory to write it is an error, unless the
// caller says that the file does not count.
package disktrace

// Package recipe builds the lab images (lab:text, lab:python, ...), and images that users describe in a
// file, from Debian packages and npm tarballs.
//
// A [Recipe] says what an image is for and which packages are wanted. A [Lock] says exactly which files that means:
// every package with version, pool path, size and sha256, every npm tarball with its integrity. Locks are committed and
// embedded, so anybody with Go alone builds the same image, byte for byte, from any mirror. Neither recipe nor lock
// names a mirror or a registry: those are the host's own ([Config]).
//
// [Build] downloads what is missing from the cache, verifies it, and unpacks it in pure Go: no shell, no maintainer
// script, no chroot, no root. What maintainer scripts would have done and programs rely on is done by repair rules
// (repair.go): alternatives, BLAS, certificates, user names without /etc/passwd. The image's own Python and Go compile
// what they would else compile at each start, in a sandbox that [Config.Compile] provides.
//
// Only when a lock is refreshed ([Refresh]), when a locked version has left the archive, or when an image file names
// Debian packages of its own, is apt asked to resolve dependencies, in a private configuration that leaves the host's
// untouched. The package reads no environment variables; cmd/silk passes what it needs.
package recipe
